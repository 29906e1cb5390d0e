"""Between mem0's records and our items."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, timedelta
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from devmem import MemoryItem
from devmem.errors import Mem0Error
from devmem.stores import dump_item, load_item, parse_time

_LOG: Final = logging.getLogger(__name__)

WRITE_KEY: Final = "devmem_write"
"""Metadata: which write a memory was made of."""
ID_KEY: Final = "devmem_id"
"""Metadata: the id of the item that was imported as this memory."""
_CARRIED_KEY: Final = "devmem"
"""Metadata: what an item says and mem0 has no field for."""
_CARRIED: Final = ("timestamp", "scope", "provenance", "event_time", "expires_at", "trust")
_OF_MEM0: Final = ("score", "categories", "source", "agent_role", "updated_at")
"""Metadata of an item that `to_item` made; it is not written back."""


class Record(BaseModel):
    """One memory as mem0 gives it (`MemoryItem` in mem0/configs/base.py, and the platform's answers)."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    id: str
    memory: str
    score: float | None = None
    created_at: str | None = None
    updated_at: str | None = None
    expiration_date: str | None = None
    categories: list[str] | None = None
    metadata: dict[str, JsonValue] | None = None
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def marked(self, key: str) -> JsonValue:
        """Return one value of the metadata."""
        return (self.metadata or {}).get(key)


_RECORDS: Final = TypeAdapter(list[Record])


def read_record(raw: object, operation: str) -> Record:
    """Read one record; raises `Mem0Error` when it is none."""
    try:
        return Record.model_validate(raw)
    except ValidationError as error:
        raise _malformed(operation, error) from None


def read_records(raw: object, operation: str) -> list[Record]:
    """Read an answer: a list, or a mapping with `memories` or `results`; raises `Mem0Error` for anything else."""
    found: object = raw
    if isinstance(raw, Mapping):
        found = next((raw[key] for key in ("memories", "results") if key in raw), raw)
    try:
        return _RECORDS.validate_python(found)
    except ValidationError as error:
        raise _malformed(operation, error) from None


def _malformed(operation: str, error: ValidationError) -> Mem0Error:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    # It was received, so a write may well have happened.
    detail = f"the answer is malformed: {place or 'all of it'}: {first['msg']}"
    return Mem0Error("answer", operation, detail, maybe_done=True)


def to_item(record: Record, *, role: str = "") -> MemoryItem:
    """Make an item of a record: mem0's times, score and categories, and whatever we had written with it."""
    metadata: dict[str, JsonValue] = dict(record.metadata or {})
    own_id = metadata.pop(ID_KEY, None)
    metadata.pop(WRITE_KEY, None)
    carried = metadata.pop(_CARRIED_KEY, None)
    told: dict[str, JsonValue] = {
        "source": "mem0",
        "agent_role": role or None,
        "score": record.score,
        "categories": list(record.categories or []),
        "updated_at": record.updated_at or None,
    }
    metadata |= {key: value for key, value in told.items() if value is not None}
    # The last day (UTC) on which it is valid.
    last_day = _seconds(record.expiration_date)
    raw: dict[str, Any] = {
        "id": own_id if isinstance(own_id, str) and own_id else record.id,
        "content_summary": record.memory,
        "metadata": metadata,
        "timestamp": _seconds(record.created_at),
        "expires_at": None if last_day is None else last_day + timedelta(days=1).total_seconds(),
        "provenance": {"kind": "summary", "name": "mem0"},
    }
    scope = {"user": record.user_id, "agent": record.agent_id, "run": record.run_id}
    if isinstance(carried, dict):
        known = {key: value for key, value in carried.items() if key in _CARRIED and value is not None}
        ids: dict[str, Any] = {part: name for part, name in scope.items() if name is not None}
        try:
            return load_item({**raw, **known, "scope": {**ids, **(known.get("scope") or {})}})  # type: ignore[dict-item]
        except (ValidationError, TypeError) as error:
            _LOG.warning("mem0 memory %s: its metadata %r was written by others: %s", record.id, _CARRIED_KEY, error)
            raw["metadata"] = {**metadata, _CARRIED_KEY: carried}
    return load_item({**raw, "scope": scope})


def carried_metadata(item: MemoryItem, *, marks: Mapping[str, str], keep_time: bool = True) -> dict[str, JsonValue]:
    """Return the metadata that carries an item through mem0, snapshots and embedding aside.

    `keep_time` says whether the item was created before: mem0 has no other place for that in `mode: oss`.
    """
    plain = dump_item(MemoryItem(content_summary="", id=item.id))
    dumped = dump_item(item)
    wanted = [key for key in _CARRIED if key != "timestamp" or keep_time]
    carried = {
        key: dumped[key] for key in wanted if key in dumped and (key == "provenance" or dumped[key] != plain.get(key))
    }
    left = _OF_MEM0 if item.metadata.get("source") == "mem0" else ()
    own = {key: value for key, value in item.metadata.items() if key not in left}
    return {**own, **({_CARRIED_KEY: carried} if carried else {}), **marks}


def _seconds(raw: str | None) -> float | None:
    """Read a time, UTC where it names no zone; None when it is missing or no time."""
    if not raw:
        return None
    try:
        return parse_time(raw, zone=UTC)
    except ValueError:
        _LOG.warning("mem0 gave %r for a time; it is left out", raw[:40])
        return None
