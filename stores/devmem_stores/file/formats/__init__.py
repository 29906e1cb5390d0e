"""One module for each format: it splits a file into sections."""

from devmem_stores.file.formats.by_suffix import read_sections

__all__ = ["read_sections"]
