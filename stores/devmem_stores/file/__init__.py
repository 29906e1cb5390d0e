"""The `file` store type."""

from devmem_stores.file.config import FileConfig
from devmem_stores.file.store import FileMemory

__all__ = ["FileConfig", "FileMemory"]
