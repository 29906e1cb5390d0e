"""The front door: a memory that is opened by a path and used with strings."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.memory.contents import checked_metadata as checked_metadata
    from devmem.memory.forgetting import forget as forget
    from devmem.memory.memory import Memory as Memory
    from devmem.memory.opening import open as open  # noqa: A004 - `devmem.open` is its name
    from devmem.memory.reading import MemorySnapshot as MemorySnapshot
    from devmem.memory.records import History as History
    from devmem.memory.records import Hits as Hits
    from devmem.memory.records import MemoryRecord as MemoryRecord
    from devmem.memory.records import RecordDifference as RecordDifference
    from devmem.memory.records import Records as Records
    from devmem.memory.records import RecordVersion as RecordVersion
    from devmem.memory.records import SearchHit as SearchHit
    from devmem.memory.records import record_of as record_of
    from devmem.memory.runs import MemoryRun as MemoryRun
    from devmem.memory.scope import ScopeParts as ScopeParts
    from devmem.memory.scope import User as User
else:
    _ORIGINS = {
        "devmem.memory.contents": "checked_metadata",
        "devmem.memory.forgetting": "forget",
        "devmem.memory.memory": "Memory",
        "devmem.memory.opening": "open",
        "devmem.memory.reading": "MemorySnapshot",
        "devmem.memory.records": "History Hits MemoryRecord RecordDifference Records RecordVersion SearchHit record_of",
        "devmem.memory.runs": "MemoryRun",
        "devmem.memory.scope": "ScopeParts User",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
