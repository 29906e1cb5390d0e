"""Text to token ids as SentencePiece's unigram model does it (Kudo, ACL 2018), in plain Python.

The vocabulary is that of XLM-RoBERTa. A text is split at white space, and each word into the pieces that are the most
probable together, which the Viterbi algorithm finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from devmem.embedding.e5.q4_file import Vocabulary
from devmem.embedding.token_words import WordFinder

_SPACE: Final = "\u2581"
"""Stands before a word in the vocabulary."""
_UNKNOWN_PENALTY: Final = 10.0
"""An unknown character is less probable than the rarest piece by this, in natural logarithms, as in SentencePiece."""
_MEMO_WORDS: Final = 50_000
"""Maximum number of words whose pieces are kept; beyond it the memo is cleared."""

Piece = tuple[int, str]
"""Id of a piece, and the word that it is of."""


class Unigram:
    """Splits texts into the pieces of a vocabulary; safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary, *, max_tokens: int) -> None:
        """Take a vocabulary; `max_tokens` limits a text's ids, the first and the last included."""
        self._ids = {piece: number for number, piece in enumerate(vocabulary.pieces)}
        self._scores = vocabulary.scores
        self._start, self._end, self._unknown = vocabulary.start, vocabulary.end, vocabulary.unknown
        self._replaced = dict(vocabulary.replaced)
        self._longest = max(map(len, vocabulary.pieces))
        self._unknown_score = min(vocabulary.scores) - _UNKNOWN_PENALTY
        self._room = max_tokens - 2
        self._memo: dict[str, list[Piece]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, between the ids of start and end; the rest of a long text is cut off."""
        return [self._start, *(number for number, _ in self._pieces(text)), self._end]

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without start and end.

        In a script without spaces a piece is a word.
        """
        return [word for _, word in self._pieces(text)]

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word."""
        return any(number != self._unknown for number, _ in self._split(word.translate(self._replaced)))

    def _pieces(self, text: str) -> list[Piece]:
        found: list[Piece] = []
        for word in text.translate(self._replaced).split():
            found += self._known(word)
            if len(found) >= self._room:
                return found[: self._room]
        return found

    def _known(self, word: str) -> list[Piece]:
        pieces = self._memo.get(word)
        if pieces is None:
            if len(self._memo) >= _MEMO_WORDS:
                self._memo.clear()
            pieces = self._memo[word] = list(self._split(word))
        return pieces

    def _split(self, word: str) -> Iterator[Piece]:
        """Return the most probable pieces of a word; unknown characters that follow one another are one piece."""
        text = _SPACE + word
        finder = WordFinder(word)
        before: int | None = None
        for start, end in self._best_cuts(text):
            number = self._ids.get(text[start:end], self._unknown)
            if number != self._unknown or before != self._unknown:
                yield number, finder.word(max(start - 1, 0), end - 1)
            before = number

    def _best_cuts(self, text: str) -> list[tuple[int, int]]:
        """Return start and end of each piece of the most probable split."""
        ids, scores, longest = self._ids, self._scores, self._longest
        best = [0.0] + [float("-inf")] * len(text)
        came_from = [0] * (len(text) + 1)
        for start in range(len(text)):
            here = best[start]
            for end in range(start + 1, min(start + longest, len(text)) + 1):
                number = ids.get(text[start:end])
                if number is not None and here + scores[number] > best[end]:
                    best[end], came_from[end] = here + scores[number], start
            if here + self._unknown_score > best[start + 1]:
                best[start + 1], came_from[start + 1] = here + self._unknown_score, start
        cuts: list[tuple[int, int]] = []
        end = len(text)
        while end:
            cuts.append((came_from[end], end))
            end = came_from[end]
        return cuts[::-1]
