"""One module a format: each turns a file into sections."""

from devmem_stores.file.formats.choosing import read_sections

__all__ = ["read_sections"]
