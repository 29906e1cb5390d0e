"""Text to token ids as BERT's uncased WordPiece does it, in plain Python.

The ids are those of the `tokenizers` package (a test compares them), without its 35 MB of dependencies.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from devmem.embedding.token_words import is_spelled_out

_CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
"""Each of these characters is a word; the reference leaves U+2B820 to U+2B91F out, so they are left out."""

_SPECIAL = re.compile(r"(\[(?:PAD|UNK|CLS|SEP|MASK)\])")
"""The reference maps these to their ids wherever they stand in a text, before anything else."""

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs"})
"""Unicode categories that are dropped; a character not assigned yet is kept, and makes its word unknown."""

_LONGEST_WORD = 100
"""Characters; a longer word is unknown."""

_MEMO_WORDS = 50_000
"""Maximum number of words whose ids are kept; beyond it the memo is cleared."""


class _CharMap(dict[int, str]):
    """Replacement of each character, computed when it is first met; a table for `str.translate`."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, code: int) -> str:
        result = self[code] = self._rule(chr(code))
        return result


def _clean(char: str) -> str:
    """Drop what cannot be seen, make every white space a space, set CJK characters apart."""
    if char in "\t\n\r":
        return " "
    if char == "\ufffd" or unicodedata.category(char) in _UNSEEN:
        return ""
    if char.isspace():
        return " "
    return f" {char} " if any(low <= ord(char) <= high for low, high in _CJK) else char


def _fold(char: str) -> str:
    """Drop an accent, lower a letter, set punctuation apart; `char` comes from a decomposed text."""
    if unicodedata.category(char) == "Mn":
        return ""
    return "".join(f" {part} " if _is_punctuation(part) else part for part in char.lower())


def _is_punctuation(char: str) -> bool:
    # BERT counts all of ASCII's symbols, `$` and `+` too.
    symbol = char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    return symbol or unicodedata.category(char).startswith("P")


class WordPiece:
    """Splits texts into the tokens of a BERT vocabulary; safe to use from several threads."""

    def __init__(self, vocabulary: Sequence[str], *, max_tokens: int) -> None:
        """Take the tokens in the order of their ids; `max_tokens` limits a text's ids, [CLS] and [SEP] included."""
        self._ids = {token: number for number, token in enumerate(vocabulary)}
        self._unknown, self._start, self._end = (self._ids[name] for name in ("[UNK]", "[CLS]", "[SEP]"))
        self._room = max_tokens - 2
        self._cleaned, self._folded = _CharMap(_clean), _CharMap(_fold)
        self._memo: dict[str, list[int]] = {}

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, [CLS] first and [SEP] last; the rest of a long text is cut off."""
        ids = [self._start]
        for word in self._words(text):
            ids += self._known(word)
            if len(ids) > self._room:
                del ids[self._room + 1 :]
                break
        ids.append(self._end)
        return ids

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without [CLS] and [SEP]."""
        found: list[str] = []
        for word in self._words(text):
            found += [word] * len(self._known(word))
            if len(found) >= self._room:
                return found[: self._room]
        return found

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word, and not only its letters, as for most alphabets."""
        pieces = self._known(word)
        return pieces != [self._unknown] and not is_spelled_out(len(pieces), len(word))

    def _words(self, text: str) -> Iterator[str]:
        for part in _SPECIAL.split(text):
            if _SPECIAL.fullmatch(part):
                yield part
            else:
                cleaned = unicodedata.normalize("NFD", part.translate(self._cleaned))
                yield from cleaned.translate(self._folded).split()

    def _known(self, word: str) -> list[int]:
        ids = self._memo.get(word)
        if ids is None:
            if len(self._memo) >= _MEMO_WORDS:
                self._memo.clear()
            ids = self._memo[word] = self._pieces(word)
        return ids

    def _pieces(self, word: str) -> list[int]:
        """Match the longest known prefix again and again; a word with an unknown rest is unknown."""
        whole = self._ids.get(word)
        if whole is not None:
            return [whole]
        if len(word) > _LONGEST_WORD:
            return [self._unknown]
        ids: list[int] = []
        start = 0
        while start < len(word):
            found = self._longest(word, start)
            if found is None:
                return [self._unknown]
            number, start = found
            ids.append(number)
        return ids

    def _longest(self, word: str, start: int) -> tuple[int, int] | None:
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            number = self._ids.get(prefix + word[start:end])
            if number is not None:
                return number, end
        return None
