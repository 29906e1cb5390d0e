"""The `brain` store type."""

from devmem_stores.brain.config import BrainConfig
from devmem_stores.brain.store import BrainMemory

__all__ = ["BrainConfig", "BrainMemory"]
