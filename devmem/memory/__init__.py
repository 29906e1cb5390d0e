"""The front door: a memory that is opened by a path and used with strings."""

from devmem.memory.handle import Memory
from devmem.memory.places import open  # noqa: A004 - `devmem.open` is its name
from devmem.memory.records import MemoryRecord, SearchHit

__all__ = ["Memory", "MemoryRecord", "SearchHit", "open"]
