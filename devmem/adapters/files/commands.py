"""The commands with which models edit memory files, worded as models know them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from devmem import Memory
from devmem.adapters.files.store import ROOT, FolderLimits, MemoryFile, MemoryFiles, below, resolved
from devmem.errors import MemoryFileError, VersionConflictError

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


_LEVELS: Final = 2
"""Levels of a directory that are listed."""
_UNITS: Final = "BKMG"


class FileCommands:
    """Views and changes files by paths as a model writes them.

    Every command returns what the model is told. What it got wrong is a `MemoryFileError`, whose text says how it is
    done right; a memory that fails is a `CollectionError`, as everywhere.
    """

    def __init__(self, memory: Memory, *, limits: FolderLimits | None = None) -> None:
        """Take the files of a memory, whose scope no path leaves; the caller closes it.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self.files = MemoryFiles(memory, limits=limits)

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return a file with line numbers, or the entries of a directory with their sizes, two levels deep.

        Args:
            path: of a file or a directory.
            view_range: first and last line of a file to return, counted from 1; -1 is its end.
        """
        place = resolved(path)
        if (file := self.files.read(place)) is not None:
            return f"Here's the content of {path} with line numbers:\n{excerpt(path, file.text, view_range)}"
        files = self.files.within(place)
        if not files and place != ROOT:
            raise MemoryFileError(f"The path {path} does not exist. Please provide a valid path.")
        entries = [f"{_size(size)}\t{entry}" for entry, size in _entries(place, files)]
        total = _size(sum(file.size for file in files))
        header = f"Here're the files and directories up to {_LEVELS} levels deep in {path}, excluding hidden items:"
        return "\n".join([header, f"{total}\t{place}", *entries])

    def create(self, path: str, file_text: str) -> str:
        """Create a file; one that is there already is not replaced."""
        place = _file_place(path)
        try:
            self.files.write(place, file_text, expected=None)
        except VersionConflictError as error:
            raise MemoryFileError(f"File {path} already exists; change it with `str_replace` or `insert`.") from error
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs once in a file."""
        place = _file_place(path)
        made: list[Replacement] = []

        def change(text: str) -> str:
            made.append(replaced(path, text, old_str, new_str))
            return made[-1].text

        self.files.edit(place, change)
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
            + made[-1].excerpt()
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert lines behind the line of a number; 0 is the start of the file."""
        self.files.edit(_file_place(path), lambda text: inserted(text, insert_line, insert_text))
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a directory with everything in it."""
        place = resolved(path)
        if place == ROOT:
            raise MemoryFileError(f"Cannot delete the {ROOT} directory itself")
        if not self.files.delete_all(place):
            raise MemoryFileError(f"The path {path} does not exist")
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or a directory to a path where nothing is."""
        old, new = resolved(old_path), resolved(new_path)
        if ROOT in (old, new):
            raise MemoryFileError(f"Cannot rename the {ROOT} directory itself, or put something in its place")
        if new.startswith(below(old)):
            raise MemoryFileError(f"Cannot move {old_path} into itself")
        if self.files.is_directory(new):
            raise MemoryFileError(f"The destination {new_path} already exists")
        if not self.files.rename(old, new):
            raise MemoryFileError(f"The path {old_path} does not exist")
        return f"Successfully renamed {old_path} to {new_path}"

    def clear(self) -> str:
        """Delete all files."""
        self.files.delete_all(ROOT)
        return "All memory cleared"


def _file_place(path: str) -> str:
    """Return the resolved path of a file."""
    place = resolved(path)
    if place == ROOT or path.endswith("/"):
        raise MemoryFileError(f"{path} is a directory; name a file in it, such as {below(place)}notes.md")
    return place


def _entries(directory: str, files: Sequence[MemoryFile]) -> list[tuple[str, int]]:
    """Return the files and directories of a listing with their sizes in bytes, in order; directories end with `/`."""
    sizes: dict[str, int] = {}
    for file in files:
        steps = file.path.removeprefix(below(directory)).split("/")
        for level, step in enumerate(steps[:_LEVELS], 1):
            if step.startswith("."):
                break
            entry = below(directory) + "/".join(steps[:level]) + ("/" if level < len(steps) else "")
            sizes[entry] = sizes.get(entry, 0) + file.size
    return sorted(sizes.items())


def _size(count: int) -> str:
    """Return a number of bytes as `12B` or `1.5K`."""
    unit, value = 0, float(count)
    while value >= 1024 and unit < len(_UNITS) - 1:
        unit, value = unit + 1, value / 1024
    return f"{value:.1f}".removesuffix(".0") + _UNITS[unit]
