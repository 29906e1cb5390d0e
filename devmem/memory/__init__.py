"""The front door: a memory that is opened by a path and used with strings."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.memory.forgetting import forget
    from devmem.memory.memory import Memory
    from devmem.memory.opening import open  # noqa: A004 - `devmem.open` is its name
    from devmem.memory.reading import MemorySnapshot
    from devmem.memory.records import (
        History,
        Hits,
        MemoryRecord,
        RecordDifference,
        Records,
        RecordVersion,
        SearchHit,
        record_of,
    )
    from devmem.memory.runs import MemoryRun
    from devmem.memory.scope import ScopeParts, User
else:
    __getattr__, __dir__ = _lazy_names(__name__)

__all__ = [
    "History",
    "Hits",
    "Memory",
    "MemoryRecord",
    "MemoryRun",
    "MemorySnapshot",
    "RecordDifference",
    "RecordVersion",
    "Records",
    "ScopeParts",
    "SearchHit",
    "User",
    "forget",
    "open",
    "record_of",
]
