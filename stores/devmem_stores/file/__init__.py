"""The `file` store type."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem_stores.file.config import FileConfig
    from devmem_stores.file.store import FileMemory
else:
    # The process that parses files imports neither.
    _ORIGINS = {
        "devmem_stores.file.config": "FileConfig",
        "devmem_stores.file.store": "FileMemory",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)

__all__ = ["FileConfig", "FileMemory"]
