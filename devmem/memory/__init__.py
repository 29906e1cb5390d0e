"""The front door: a memory that is opened by a path and used with strings."""

from devmem.memory.boundary import User
from devmem.memory.handle import Memory
from devmem.memory.places import open  # noqa: A004 - `devmem.open` is its name
from devmem.memory.records import MemoryRecord, SearchHit, record_of
from devmem.memory.workflow_forgetting import forget

__all__ = ["Memory", "MemoryRecord", "SearchHit", "User", "forget", "open", "record_of"]
