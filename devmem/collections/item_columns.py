"""The columns of an item that databases keep beside its body, for searches and filters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Final, TypeAlias

import numpy as np

from devmem.collections.prepared import PreparedItem
from devmem.model.indexed_fields import embedded_hash
from devmem.model.items import MemoryItem, Scope, Vector, load_item_json
from devmem.text.cues import cues_of

COLUMNS: Final = (
    *("id", "content_hash", "created_at", "event_time", "expires_at", "trust", "importance"),
    *("agent", "user", "session", "conversation", "trace", "run"),
    *("source_kind", "source_name", "speaker", "cues", "length"),
)
_FIELDS: Final = '"indexed_fields":'
"""Part of the body of every item with fields."""
TextForm: TypeAlias = Callable[[str | None], str | None]
"""Returns the form in which a database's columns can hold a text; different texts have different ones."""


def item_columns(prepared: PreparedItem, text: TextForm) -> tuple[str | float | int | None, ...]:
    """Return the columns of `COLUMNS`, which searches and filters read; `text` is the database's form of a text."""
    item = prepared.item
    scope = item.scope
    return (
        text(item.id),
        item.content_hash,
        float(item.created_at),
        None if item.event_time is None else float(item.event_time),
        None if item.expires_at is None else float(item.expires_at),
        float(item.trust),
        _importance(item),
        text(scope.agent),
        text(scope.user),
        text(scope.session),
        text(scope.conversation),
        text(scope.trace),
        text(scope.run),
        item.provenance.kind.value,
        text(item.provenance.name),
        _speaker(item, text),
        int(cues_of(item.content_summary)),
        prepared.length(),
    )


def stored_hash(content_hash: str, body: str | bytes) -> str:
    """Return the `embedded_hash` of a stored item, given the hash of its content; only one with fields is read."""
    named = _FIELDS in body if isinstance(body, str) else _FIELDS.encode() in body
    return embedded_hash(load_item_json(body)) if named else content_hash


def _speaker(item: MemoryItem, text: TextForm) -> str | None:
    found = item.metadata.get("speaker")
    return text(found) if isinstance(found, str) and found else None


def _importance(item: MemoryItem) -> float | None:
    found = item.metadata.get("importance")
    if isinstance(found, bool) or not isinstance(found, int | float) or _is_not_finite(found):
        return None
    # An integer may be too large for a float.
    return float(min(max(found, 0), 1))


def check_item(item: MemoryItem) -> None:
    """Refuse an item whose fields do not fit their columns; `dump_item_json` refuses what has no JSON form.

    Raises:
        ValueError: it names the item and the field.
    """
    named = {"id": item.id, **{part.name: getattr(item.scope, part.name) for part in fields(Scope)}}
    for name, value in named.items():
        if value is not None and not isinstance(value, str):
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {value!r}, not a string")
    for name in ("created_at", "event_time", "expires_at", "trust"):
        if _is_not_finite(value := getattr(item, name)):
            raise ValueError(f"item {item.id!r} cannot be stored: its `{name}` is {value}")


def _is_not_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def vector_bytes(vector: Vector) -> bytes:
    """Return a vector as the database stores it: float32, little-endian."""
    return np.asarray(vector, dtype="<f4").tobytes()


def vector_from(raw: bytes) -> Vector:
    """Return the vector of stored bytes."""
    return np.frombuffer(raw, dtype="<f4").astype(np.float32)
