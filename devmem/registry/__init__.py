"""Store types as plugins."""

from devmem.registry.registry import ENTRY_POINT_GROUP, StoreRegistry, register_memory_store, registry
from devmem.registry.types import StoreFactory, StoreType

__all__ = ["ENTRY_POINT_GROUP", "StoreFactory", "StoreRegistry", "StoreType", "register_memory_store", "registry"]
