"""From CrewAI's records to devmem's items, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from crewai.memory.types import MemoryRecord

from devmem import Filter, MemoryItem, Scope
from devmem.adapters.hosts import AGENT_TRUST, scoped_id, snapshot_of
from devmem.storage import differs_from, starts_with
from devmem.stores import Provenance, SourceKind, parse_time

SOURCE: Final = "crewai"
"""Name of the source of items that are written here."""
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


def item_id(record_id: str, scope: Scope) -> str:
    """Return the id of the item of a record; in another scope it is another item."""
    return scoped_id([record_id], scope)


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
    summary, whole = snapshot_of(record.content)
    return MemoryItem(
        id=item_id(record.id, scope),
        content_summary=summary,
        input_snapshot=whole,
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
        created_at=seconds_of(record.created_at),
        scope=scope,
        provenance=Provenance(kind=SourceKind.NODE, name=SOURCE),
        trust=AGENT_TRUST,
    )


def touched(item: MemoryItem, when: datetime) -> MemoryItem:
    """Return the item of a record that was recalled."""
    return replace(item, metadata={**item.metadata, _LAST_ACCESSED: _utc(when).isoformat()})


def record_from(item: MemoryItem) -> MemoryRecord:
    """Return an item as CrewAI sees it; one that others wrote is in the scope `OTHERS`, under its id."""
    if not is_own(item):
        found = item
        return MemoryRecord(
            id=item.id,
            content=found.text,
            scope=OTHERS,
            metadata=found.caller_metadata,
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
    return parse_time(when, zone=UTC)


def _naive(seconds: float) -> datetime:
    """Return a time as CrewAI computes with them: UTC, without a zone."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """The part of a choice that the database makes, and the part that is made on the records."""

    where: Filter
    rest: Callable[[MemoryRecord], bool] | None = None
    """Predicate on what the database cannot compare, such as lists; None where there is nothing left."""

    def admits(self, record: MemoryRecord) -> bool:
        """Whether a record that the database selected is meant."""
        return self.rest is None or self.rest(record)


def below(scope: str | None, *, own_only: bool = False) -> Filter:
    """Return the filter of the items in a scope and below it.

    Args:
        scope: CrewAI's path; None or `/` is everything.
        own_only: whether what others wrote is left out, unless `scope` names it.
    """
    text = scope_text(scope or "/")
    others = Filter(source_name=differs_from(SOURCE))
    if text.startswith(scope_text(OTHERS)):
        return others
    own = Filter(source_name=SOURCE)
    if text == "/":
        return own if own_only else Filter(any_of=(own, others))
    return replace(own, metadata={SCOPE: starts_with(text)})


def selected(
    where: Filter,
    categories: Sequence[str] | None = None,
    metadata_filter: Mapping[str, Any] | None = None,
    older_than: datetime | None = None,
) -> RecordSelection:
    """Return the selection of those items of a filter that have one of the categories and all of the metadata."""
    wanted = metadata_filter or {}
    plain = {key: value for key, value in wanted.items() if isinstance(value, str | int | float)}
    others = {key: value for key, value in wanted.items() if key not in plain}
    having = tuple(Filter(metadata={category_key(each): True}) for each in categories or ())
    narrowed = replace(
        where,
        metadata={**where.metadata, **plain},
        before=seconds_of(older_than) if older_than is not None else None,
    )
    if having:
        # A filter has one list of alternatives; those of the scope are each combined with those of the categories.
        scopes = narrowed.any_of or (Filter(),)
        narrowed = replace(
            narrowed, any_of=tuple(replace(one, metadata=each.metadata) for one in scopes for each in having)
        )
    if not others:
        return RecordSelection(where=narrowed)
    return RecordSelection(
        where=narrowed,
        rest=lambda record: all(record.metadata.get(key) == value for key, value in others.items()),
    )
