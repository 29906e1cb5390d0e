"""The word that a token is a piece of, by the token's place in the text, and whether the model knows it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from devmem.text.analysis import mostly_unspaced

_RUN: Final = re.compile(r"\w+")
_FEW_PIECES: Final = 2
"""Number of pieces up to which a word is known, however short it is."""
_SPELLED_OUT: Final = 0.6
"""A word with more pieces than this share of its letters is spelled out: the model has not learned it."""

Span = tuple[int, int]
"""Where a piece starts and ends in the text."""


def is_spelled_out(pieces: int, letters: int) -> bool:
    """Whether a word of some letters has as many pieces as one of an alphabet that the model has not learned."""
    return pieces > _FEW_PIECES and pieces > _SPELLED_OUT * letters


def share_of_known(pieces: Iterable[tuple[str, bool]]) -> float:
    """Return the share of a text's pieces that a model knows, 1 for none.

    Marks and digits that it knows do not count: every model knows them, and they make a language no more readable.

    Args:
        pieces: each piece, or the word that it is of, and whether the model knows it.
    """
    counted = [is_known for piece, is_known in pieces if not is_known or any(char.isalpha() for char in piece)]
    return sum(counted) / len(counted) if counted else 1.0


class WordFinder:
    """Finds the words of one text's tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs = [(found.start(), found.end(), found[0]) for found in _RUN.finditer(text)]

    def word(self, start: int, end: int) -> str:
        """Return the run of letters and digits that a piece is of, or the piece itself where it has none.

        In a script without spaces the piece is the word.
        """
        piece = self._text[start:end]
        if not mostly_unspaced(piece):
            for low, high, run in self._runs:
                if low < end and high > start:
                    return run
        return piece

    def words(self, spans: Iterable[Span]) -> tuple[str, ...]:
        """Return the word of each piece, given by where it starts and ends."""
        return tuple(self.word(start, end) for start, end in spans)

    def known_share(self, spans: Sequence[Span], unknown: Sequence[bool]) -> float:
        """Return the share of the pieces that are of words which the model knows; see `share_of_known`.

        Args:
            spans: where each piece stands.
            unknown: whether each is the model's token for what it does not know.
        """
        starts = [low for low, _, _ in self._runs]
        places = [bisect_right(starts, max(start, end - 1)) - 1 for start, end in spans]
        pieces = Counter(places)
        strange = {at for at, is_unknown in zip(places, unknown, strict=True) if is_unknown}
        strange |= {at for at, count in pieces.items() if at >= 0 and self._is_spelled_out(at, count)}
        return share_of_known(
            (self._text[low:high], at not in strange) for at, (low, high) in zip(places, spans, strict=True)
        )

    def _is_spelled_out(self, at: int, pieces: int) -> bool:
        _, _, run = self._runs[at]
        # In a script without spaces a run is many words, and a character of its own is usual.
        return is_spelled_out(pieces, len(run)) and not mostly_unspaced(run)
