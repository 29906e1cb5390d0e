"""The `simple` store type."""

from devmem_stores.simple.config import SimpleConfig
from devmem_stores.simple.store import SimpleMemory

__all__ = ["SimpleConfig", "SimpleMemory"]
