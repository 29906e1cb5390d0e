"""Sections: the parts of a file that are chunked one by one, with the file's line for each line of text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a file that belongs together: below one heading, one definition, one record, one page."""

    text: str
    numbers: Sequence[int]
    """For each line of the text, the 1-based line of the file that it comes from."""
    heading: tuple[str, ...] = ()
    """Its headings, outermost first."""
    symbol: str | None = None
    """Name of the definition, such as `Class.method`."""
    page: int | None = None
    """1-based, where the file has pages."""
    last: int | None = None
    """The last line, where it is not the last of `numbers`: a record that spans several lines."""
    whole: tuple[range, ...] = ()
    """Lines of the text (0-based) that should not be torn apart: code fences."""


def lines_of(text: str) -> list[str]:
    """Split at line feeds alone, as editors count lines; the lines keep them."""
    return _LINE.findall(text)


def section_of(
    lines: Sequence[str], start: int, end: int, *, heading: tuple[str, ...] = (), symbol: str | None = None
) -> Section:
    """Make a section of the lines from `start` up to `end` (0-based, exclusive); they keep their line ends."""
    return Section(text="".join(lines[start:end]), numbers=range(start + 1, end + 1), heading=heading, symbol=symbol)
