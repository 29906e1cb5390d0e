"""The front door: a memory that is opened by a path and used with strings."""

from typing import TYPE_CHECKING

from devmem.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from devmem.memory.contents import checked_metadata as checked_metadata
    from devmem.memory.memory import Memory as Memory
    from devmem.memory.reading import MemorySnapshot as MemorySnapshot
    from devmem.memory.reading import record_recall as record_recall
    from devmem.memory.scope import ScopeParts as ScopeParts
    from devmem.memory.scope import User as User
    from devmem.memory.tables import History as History
    from devmem.memory.tables import Hits as Hits
    from devmem.memory.tables import Items as Items
    from devmem.model.versions import Change as Change
    from devmem.model.versions import ItemDifference as ItemDifference
    from devmem.model.versions import ItemVersion as ItemVersion
    from devmem.model.versions import Operation as Operation
    from devmem.model.versions import RunInfo as RunInfo
    from devmem.model.versions import RunState as RunState
else:
    _ORIGINS = {
        "devmem.memory.contents": "checked_metadata",
        "devmem.memory.memory": "Memory",
        "devmem.memory.reading": "MemorySnapshot record_recall",
        "devmem.model.versions": "Change ItemDifference ItemVersion Operation RunInfo RunState",
        "devmem.memory.tables": "History Hits Items",
        "devmem.memory.scope": "ScopeParts User",
    }
    __getattr__, __dir__ = _lazy_names(__name__, _ORIGINS)
