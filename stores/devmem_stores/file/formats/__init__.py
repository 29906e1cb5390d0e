"""One module for each format: it splits a file into sections."""

from devmem_stores.file.formats.by_suffix import encoding_guess, read_sections

__all__ = ["encoding_guess", "read_sections"]
