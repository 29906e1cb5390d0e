"""The memory of an agent node."""

from devmem.manager.manager import MemoryManager
from devmem.manager.rescue import UnsavedWrites, dump_payload, load_payload
from devmem.model.results import CutHit, MemoryRetrievalResult, MemoryUpdateResult, StoreFailure, StoreWrite

__all__ = [
    "CutHit",
    "MemoryManager",
    "MemoryRetrievalResult",
    "MemoryUpdateResult",
    "StoreFailure",
    "StoreWrite",
    "UnsavedWrites",
    "dump_payload",
    "load_payload",
]
