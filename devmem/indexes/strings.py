"""Dictionary encoding of strings: a column keeps a number for each distinct string."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from devmem.text.utf8 import encodable

NO_STRING: Final = -1
"""Code of None."""
_UNKNOWN: Final = -2


class StringTable:
    """Distinct strings, numbered in the order in which they came. A code never changes its meaning."""

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings = list(strings)
        self._codes = {string: code for code, string in enumerate(self._strings)}

    def encode(self, string: str | None) -> int:
        """Return the code of a string, which is added when it is new."""
        if string is None:
            return NO_STRING
        code = self._codes.setdefault(string, len(self._strings))
        if code == len(self._strings):
            self._strings.append(string)
        return code

    def encode_all(self, strings: Iterable[str | None]) -> list[int]:
        """Return the codes of some strings, which are added when they are new."""
        known = self._codes
        return [NO_STRING if each is None else known[each] if each in known else self.encode(each) for each in strings]

    def find(self, string: str) -> int:
        """Return the code of a string; a number that no column holds when it is not there.

        Strings with lone surrogates are looked up in the form in which databases hold them.
        """
        return self._codes.get(encodable(string), _UNKNOWN)

    def decode(self, codes: NDArray[np.int32]) -> list[str | None]:
        """Return the string of each code."""
        if not self._strings:
            return [None] * len(codes)
        return [None if code == NO_STRING else self._strings[code] for code in codes.tolist()]

    def part(self) -> NDArray[np.uint8]:
        """Return the strings as bytes, which `restore` takes."""
        return np.frombuffer(json.dumps(self._strings).encode(), dtype=np.uint8)

    @classmethod
    def restore(cls, part: NDArray[Any]) -> Self:
        """Return the table that `part` was made of; raises `ValueError` when it is not JSON."""
        return cls(json.loads(part.tobytes()))
