"""Memories of mem0, as its `get_all` returns them: a list, or an object with `results`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem, Scope
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.records import text_item, text_of

_SCOPE: Final = {"user_id": "user", "agent_id": "agent", "run_id": "run"}
_KEPT: Final = ("categories", "actor_id", "role", "updated_at")


def is_mem0(document: object) -> bool:
    """Whether a document has this form."""
    memories = _memories(document)
    return bool(memories) and isinstance(memories[0], Mapping) and {"id", "memory"} <= memories[0].keys()


def count_mem0(document: object) -> int:
    """Count the memories."""
    return len(_memories(document))


def read_mem0(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each memory, under its id.

    Raises:
        DataFileError: something is not as mem0 returns it.
    """
    for at, raw in enumerate(_memories(document)):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping):
            raise here.error(f"expected a memory, found {type(raw).__name__}")
        yield _item(raw, here)


def _item(raw: Mapping[str, Any], origin: Origin) -> MemoryItem:
    given = raw.get("metadata") or {}
    if not isinstance(given, Mapping):
        raise origin.error(f"'metadata': expected an object, found a value of type {type(given).__name__}")
    time = raw.get("created_at")
    scope = {part: text_of(raw, key, origin) for key, part in _SCOPE.items() if raw.get(key) is not None}
    return text_item(
        origin=origin,
        id=text_of(raw, "id", origin),
        text=text_of(raw, "memory", origin),
        event_time=origin.time("created_at", time) if time else None,
        scope=Scope(**scope),
        metadata={**{key: raw[key] for key in _KEPT if raw.get(key)}, **given},
    )


def _memories(document: object) -> list[object]:
    found = document.get("results") if isinstance(document, Mapping) else document
    return found if isinstance(found, list) else []
