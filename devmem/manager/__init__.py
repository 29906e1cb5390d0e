"""The memory of an agent node."""

from devmem.manager.manager import MemoryManager
from devmem.manager.rescue import UnsavedWrites, dump_payload, load_payload

__all__ = ["MemoryManager", "UnsavedWrites", "dump_payload", "load_payload"]
