"""How much a model may keep in files."""

from __future__ import annotations

from dataclasses import dataclass

from devmem.errors import MemoryFileError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Limits of the files of one scope; a write beyond them is refused and changes nothing."""

    max_chars: int = 100_000
    """Maximum number of characters of one file."""
    max_files: int = 1_000
    """Maximum number of files."""

    def __post_init__(self) -> None:
        if self.max_chars < 1 or self.max_files < 1:
            raise ValueError("the limits of memory files are at least 1")

    def check_text(self, path: str, text: str) -> None:
        """Raise `MemoryFileError` for a text that is too long."""
        if len(text) > self.max_chars:
            raise MemoryFileError(
                f"{path} would have {len(text):,} characters, and {self.max_chars:,} is the maximum of a memory file. "
                "Shorten it, or split it into several files."
            )

    def check_count(self, path: str, count: int) -> None:
        """Raise `MemoryFileError` where a file would be one too many beside `count` others."""
        if count >= self.max_files:
            raise MemoryFileError(
                f"{path} is not created: there are {count:,} memory files, and {self.max_files:,} is the maximum. "
                "Delete what is not needed any more, or add to a file that is there."
            )
