"""The `mem0` store type."""

from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.store import Mem0Memory

__all__ = ["Mem0Config", "Mem0Memory"]
