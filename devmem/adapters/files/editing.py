"""Changes of a file's text, and the excerpts that a model is shown of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from devmem.errors import MemoryFileError

MAX_LINES: Final = 999_999
"""Maximum number of lines of a file that is shown."""
_NUMBER_WIDTH: Final = len(str(MAX_LINES))
_CONTEXT: Final = 2
"""Lines that are shown before and after a change."""


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, without the empty one behind the newline at its end."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def numbered(lines: Sequence[str], first: int = 1) -> str:
    """Return lines with their numbers, of which the first is `first`."""
    return "\n".join(f"{number:>{_NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def excerpt(path: str, text: str, view_range: Sequence[int] | None) -> str:
    """Return a text with line numbers, or its lines from the first to the last of a range; -1 is the end.

    Raises:
        MemoryFileError: the text has too many lines, or the range is none of this text.
    """
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise MemoryFileError(f"File {path} exceeds maximum line limit of {MAX_LINES:,} lines.")
    if not view_range:
        return numbered(lines)
    first, last = view_range if len(view_range) == 2 else (0, 0)
    last = len(lines) if last == -1 else last
    if not 1 <= first <= min(last, len(lines)):
        raise MemoryFileError(
            f"Invalid `view_range` parameter: {list(view_range)}. It should be [first, last] with "
            f"1 <= first <= last, or -1 for the end; the file has {len(lines)} lines."
        )
    return numbered(lines[first - 1 : last], first)


class Replacement(NamedTuple):
    """A changed text."""

    text: str
    line: int
    """Number of the line in which the change begins."""

    def excerpt(self) -> str:
        """Return the lines around the change, with their numbers."""
        first = max(1, self.line - _CONTEXT)
        return numbered(self.text.split("\n")[first - 1 : self.line + _CONTEXT], first)


def replaced(path: str, text: str, old: str, new: str) -> Replacement:
    """Return a text with its only occurrence of `old` replaced.

    Raises:
        MemoryFileError: it does not occur, or several times; the error names the lines.
    """
    if not old:
        raise MemoryFileError("No replacement was performed, old_str is empty; use `insert` to add lines.")
    places = _places(text, old)
    if not places:
        raise MemoryFileError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if len(places) > 1:
        raise MemoryFileError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{', '.join(str(_line_at(text, place)) for place in places)}. Please ensure it is unique"
        )
    return Replacement(text=text.replace(old, new), line=_line_at(text, places[0]))


def _places(text: str, wanted: str) -> list[int]:
    """Return where a text begins in another, overlapping occurrences included."""
    places, place = [], text.find(wanted)
    while place >= 0:
        places.append(place)
        place = text.find(wanted, place + 1)
    return places


def _line_at(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def inserted(text: str, line: int, new: str) -> str:
    """Return a text with another behind the line of a number, 0 being its start; it ends with a newline.

    Raises:
        MemoryFileError: there is no such line.
    """
    lines = lines_of(text)
    if not 0 <= line <= len(lines):
        raise MemoryFileError(
            f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}]."
        )
    return "\n".join([*lines[:line], *new.removesuffix("\n").split("\n"), *lines[line:]]) + "\n"
