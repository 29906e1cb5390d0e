"""MADial-Bench's memories: objects `{ID: {time, scene, emotion, event, user-id}}`, several in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item, text_of

_USUAL: Final = frozenset({"time", "event", "user-id", "id"})


def is_madial(raw: object) -> bool:
    """Whether an object holds memories of this form."""
    return (
        isinstance(raw, Mapping)
        and bool(raw)
        and all(isinstance(memory, Mapping) and {"event", "user-id"} <= memory.keys() for memory in raw.values())
    )


def read_madial(raw: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each memory of an object: its event, bound to its user; scene and emotion are metadata.

    A memory's id is `madial/ID`.

    Raises:
        DataFileError: something has not this form.
    """
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected an object of memories by their id, found {type(raw).__name__}")
    for name, memory in raw.items():
        here = replace(origin, entry=f"[{name!r}]")
        if not isinstance(memory, Mapping):
            raise here.error(f"expected a memory, found {type(memory).__name__}")
        yield text_item(
            origin=here,
            id=f"madial/{name}",
            text=text_of(memory, "event", here),
            event_time=here.time("time", memory["time"]) if memory.get("time") is not None else None,
            scope=Scope(user=text_of(memory, "user-id", here)),
            metadata={str(key): value for key, value in memory.items() if key not in _USUAL},
        )
