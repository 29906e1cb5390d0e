"""The front door: a memory that is opened by a path and used with strings."""

from devmem.memory.forgetting import forget
from devmem.memory.memory import Memory
from devmem.memory.opening import open  # noqa: A004 - `devmem.open` is its name
from devmem.memory.records import MemoryRecord, SearchHit, record_of
from devmem.memory.scope import User

__all__ = ["Memory", "MemoryRecord", "SearchHit", "User", "forget", "open", "record_of"]
