"""The word that a token is a piece of, by the token's place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from devmem.text.analysis import mostly_unspaced

_RUN: Final = re.compile(r"\w+")


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

    def words(self, spans: Iterable[tuple[int, int]]) -> tuple[str, ...]:
        """Return the word of each piece, given by where it starts and ends."""
        return tuple(self.word(start, end) for start, end in spans)
