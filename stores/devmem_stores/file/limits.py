"""Limits of a single file, and the messages about files beyond them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FREE_CHARACTERS: Final = 1_000_000
"""Characters of text that a file of any size may have: small files may well expand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a single file; one beyond them is reported and not indexed."""

    max_bytes: int
    max_chunks: int
    max_seconds: float
    """Longest time to parse the file."""
    max_expansion: float
    """Characters of chunk text for each byte of the file, beyond the first million."""
    max_memory: int
    """Bytes of memory that parsing may take; enforced on Linux only."""

    def characters(self, size: int) -> int:
        """Return the maximum number of characters of all chunks of a file of `size` bytes."""
        return FREE_CHARACTERS + int(self.max_expansion * size)

    def too_large(self, size: int) -> str:
        """Return the message about a file of `size` bytes."""
        return f"has {size:,} bytes, more than limits.max_bytes = {self.max_bytes:,}"

    def too_many_chunks(self) -> str:
        """Return the message about a file with too many chunks."""
        return f"has more than limits.max_chunks = {self.max_chunks:,} chunks"

    def too_much_text(self, size: int) -> str:
        """Return the message about a file of `size` bytes with too much text."""
        return (
            f"expands from {size:,} bytes to more than {self.characters(size):,} characters of text "
            f"(limits.max_expansion = {self.max_expansion:g})"
        )

    def too_slow(self) -> str:
        """Return the message about a file that takes too long."""
        return f"takes longer to parse than limits.max_seconds = {self.max_seconds:g}"

    def too_much_memory(self) -> str:
        """Return the message about a file that takes too much memory."""
        return f"takes more memory to parse than limits.max_memory = {self.max_memory:,} bytes"
