"""The `sharded` store type."""

from devmem_stores.sharded.config import ShardedConfig
from devmem_stores.sharded.store import ShardedMemory

__all__ = ["ShardedConfig", "ShardedMemory"]
