"""The `long_term` store type."""

from devmem_stores.long_term.config import LongTermConfig
from devmem_stores.long_term.store import LongTermMemory

__all__ = ["LongTermConfig", "LongTermMemory"]
