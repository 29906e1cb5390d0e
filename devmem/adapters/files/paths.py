"""Paths of memory files: names in the database, never of a file system, and confined to one root all the same."""

from __future__ import annotations

from typing import Final

from devmem.errors import MemoryFileError

ROOT: Final = "/memories"
"""Directory of all memory files."""
_MAX_PATH: Final = 1_024
"""Maximum number of characters of a path."""


def resolved(path: str) -> str:
    """Return a path without empty, `.` and `..` segments, and without a slash at its end.

    Raises:
        MemoryFileError: it is not in `ROOT`, leads out of it, is too long, or has characters that cannot be shown.
    """
    if len(path) > _MAX_PATH:
        raise MemoryFileError(f"A path has at most {_MAX_PATH:,} characters, not {len(path):,}")
    if not path.isprintable():
        raise MemoryFileError(f"Path {path!r} has characters that cannot be shown; use letters, digits, `-`, `_`, `.`")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise MemoryFileError(f"Path must start with {ROOT}, got: {path}")
    kept: list[str] = []
    for segment in path.removeprefix(ROOT).split("/"):
        if segment == "..":
            if not kept:
                raise MemoryFileError(f"Path {path} would escape {ROOT} directory")
            kept.pop()
        elif segment not in ("", "."):
            kept.append(segment)
    return "/".join([ROOT, *kept])


def parents(path: str) -> list[str]:
    """Return the directories above a resolved path, without the root."""
    steps = path.removeprefix(f"{ROOT}/").split("/")
    return ["/".join([ROOT, *steps[:end]]) for end in range(1, len(steps))]


def below(directory: str) -> str:
    """Return what the path of everything in a directory begins with."""
    return f"{directory}/"
