"""From CrewAI's records to devmem's items, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, Final

from crewai.memory.types import MemoryRecord

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.memory import record_of
from devmem.stores import Provenance, SourceKind, shorten

SOURCE: Final = "crewai"
"""Name of the source of what is written here."""
_OWN: Final = "crewai."
SCOPE: Final = "crewai.scope"
"""Metadata key of the scope, which ends with a slash, so that no prefix ends inside of a name."""
_ID: Final = "crewai.id"
_IMPORTANCE: Final = "crewai.importance"
_LAST_ACCESSED: Final = "crewai.last_accessed"
_RECORD_SOURCE: Final = "crewai.source"
_PRIVATE: Final = "crewai.private"
_CATEGORIES: Final = "crewai.categories"
_CATEGORY: Final = "crewai.category."
"""Begins the metadata keys of the categories, one each, which filters can name."""
OTHERS: Final = "/devmem"
"""Scope of what others wrote into the memory."""
_SUMMARY: Final = 1_000
"""Characters of a text that is shown whole in lists."""


def item_id(record_id: str, scope: Scope) -> str:
    """Return the id of the item of a record; in another scope it is another item."""
    named = json.dumps([record_id, asdict(scope)], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def category_key(category: str) -> str:
    """Return the metadata key of a category."""
    return f"{_CATEGORY}{category}"


def scope_text(scope: str) -> str:
    """Return the metadata value of a scope, which is a prefix of those below it: `/`, or `/crew/sales/`."""
    names = [name for name in scope.split("/") if name]
    return "/".join(["", *names, ""]) if names else "/"


def path_of(text: str) -> str:
    """Return the scope of a metadata value, as CrewAI writes it."""
    return text.rstrip("/") or "/"


def is_own(item: MemoryItem) -> bool:
    """Whether an item was written through this adapter."""
    return item.provenance.name == SOURCE and _ID in item.metadata


def item_of(record: MemoryRecord, scope: Scope) -> MemoryItem:
    """Return the item that keeps a record, without its vector.

    Raises:
        ValueError: a key of its metadata is one of the adapter's own, or its scope is that of others.
    """
    if taken := sorted(key for key in record.metadata if key.startswith(_OWN)):
        raise ValueError(f"the metadata key {taken[0]!r} is taken by the storage itself; rename it")
    if scope_text(record.scope).startswith(scope_text(OTHERS)):
        raise ValueError(f"the scope {OTHERS!r} is for what others wrote into the memory; choose another one")
    summary = record.content if len(record.content) <= _SUMMARY else shorten(record.content, _SUMMARY)
    return MemoryItem(
        id=item_id(record.id, scope),
        content_summary=summary,
        input_snapshot=MemoryContentSnapshot(text=record.content) if summary != record.content else None,
        metadata={
            **record.metadata,
            _ID: record.id,
            SCOPE: scope_text(record.scope),
            _IMPORTANCE: record.importance,
            _LAST_ACCESSED: _utc(record.last_accessed).isoformat(),
            _RECORD_SOURCE: record.source,
            _PRIVATE: record.private,
            _CATEGORIES: list(record.categories),
            **{category_key(each): True for each in record.categories},
        },
        created_at=_utc(record.created_at).timestamp(),
        scope=scope,
        provenance=Provenance(kind=SourceKind.NODE, name=SOURCE),
    )


def touched(item: MemoryItem, when: datetime) -> MemoryItem:
    """Return the item of a record that was recalled."""
    return replace(item, metadata={**item.metadata, _LAST_ACCESSED: _utc(when).isoformat()})


def record_from(item: MemoryItem) -> MemoryRecord:
    """Return an item as CrewAI sees it; one that others wrote is in the scope `OTHERS`, under its id."""
    if not is_own(item):
        found = record_of(item)
        return MemoryRecord(
            id=item.id,
            content=found.text,
            scope=OTHERS,
            metadata=dict(found.metadata),
            created_at=_naive(item.created_at),
            last_accessed=_naive(item.created_at),
            source=item.provenance.name or None,
        )
    meta: Mapping[str, Any] = item.metadata
    return MemoryRecord(
        id=meta[_ID],
        content=item.input_snapshot.text if item.input_snapshot else item.content_summary,
        scope=path_of(meta[SCOPE]),
        categories=meta[_CATEGORIES],
        metadata={key: value for key, value in meta.items() if not key.startswith(_OWN)},
        importance=meta[_IMPORTANCE],
        created_at=_naive(item.created_at),
        last_accessed=datetime.fromisoformat(meta[_LAST_ACCESSED]).replace(tzinfo=None),
        source=meta[_RECORD_SOURCE],
        private=meta[_PRIVATE],
    )


def _utc(when: datetime) -> datetime:
    """Return a time with its zone; CrewAI's own have none and are UTC."""
    return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)


def seconds_of(when: datetime) -> float:
    """Return a time of CrewAI's as seconds since the epoch."""
    return _utc(when).timestamp()


def _naive(seconds: float) -> datetime:
    """Return a time as CrewAI computes with them: UTC, without a zone."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
