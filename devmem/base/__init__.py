"""What a store type is built on."""

from devmem.base.collection_memory import CollectionConfig, CollectionMemory, PlaceConfig
from devmem.base.composing import item_from, skipped
from devmem.base.encoding import encode_items
from devmem.base.indexing import Indexing, IndexPlan, IndexProgress, IndexReport, IndexStep
from devmem.base.memory import MemoryBase, Progress
from devmem.base.query import MemoryQuery, QueryEmbedding
from devmem.base.setup import StoreSetup

__all__ = [
    "CollectionConfig",
    "CollectionMemory",
    "IndexPlan",
    "IndexProgress",
    "IndexReport",
    "IndexStep",
    "Indexing",
    "MemoryBase",
    "MemoryQuery",
    "PlaceConfig",
    "Progress",
    "QueryEmbedding",
    "StoreSetup",
    "encode_items",
    "item_from",
    "skipped",
]
