"""From LangGraph's items to devmem's, and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from langgraph.store.base import InvalidNamespaceError, PutOp

from devmem import MemoryItem, Scope
from devmem.adapters.hosts import AGENT_TRUST, scoped_id, snapshot_of
from devmem.memory import checked_metadata
from devmem.stores import Provenance, SourceKind, texts_at

_CHOICE: Final = re.compile(r"\{([^{}]*)\}")


def field_paths(value: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that LangGraph's mean: `{a,b}` is one for each of its fields, and `*` any key of the value."""
    return tuple(dict.fromkeys(path for field in fields for each in _choices(field) for path in _named(value, each)))


def field_texts(value: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """Return the texts of a value's fields, in their order."""
    return [found.text for path in paths for found in texts_at(value, path)]


def _choices(field: str) -> Iterator[str]:
    found = _CHOICE.search(field)
    if found is None:
        yield field
        return
    for one in found[1].split(","):
        yield from _choices(
            f"{field[: found.start()]}.{one.strip()}{field[found.end() :]}".lstrip(".").replace("..", ".")
        )


def _named(value: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield a path with each key of the value in the place of a star in front: the item has more keys."""
    first, period, rest = path.partition(".")
    if first != "*":
        yield path
        return
    yield from (f"{key}{period}{rest}" for key in value)


Namespace: TypeAlias = tuple[str, ...]

SOURCE: Final = "langgraph"
"""Name of the source of items that are written here."""
NAMESPACE: Final = "langgraph.namespace"
"""Metadata key of the namespace, its labels each followed by a period, so that no prefix ends inside of a label."""
KEY: Final = "langgraph.key"
UPDATED: Final = "langgraph.updated_at"
TTL: Final = "langgraph.ttl_minutes"
RESERVED: Final = frozenset({NAMESPACE, KEY, UPDATED, TTL})
"""Metadata keys beside those of the value."""
OTHERS: Final[Namespace] = ("devmem",)
"""Namespace of what others wrote into the memory."""
_FIELD_END: Final = "\n\n"
"""Makes a paragraph of each field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When an item was made, and when it ends; seconds since the epoch."""

    now: float
    created_at: float
    ttl_minutes: float | None

    @property
    def expires_at(self) -> float | None:
        """When the item expires."""
        return None if self.ttl_minutes is None else self.now + 60 * self.ttl_minutes


def check_namespace(namespace: Sequence[object]) -> None:
    """Refuse a namespace whose text another one could have; `BaseStore.put` does, but a batch is not checked there.

    Raises:
        InvalidNamespaceError: it is not a list of labels without periods.
    """
    for label in namespace:
        if not isinstance(label, str) or not label or "." in label:
            raise InvalidNamespaceError(f"{label!r} in {namespace!r} is no label: a text without periods, not empty")


def item_id(namespace: Namespace, key: str, scope: Scope) -> str:
    """Return the id of the item of a key in a namespace; in another scope it is another item."""
    return scoped_id([namespace, key], scope)


def namespace_text(namespace: Namespace) -> str:
    """Return the metadata value of a namespace, which is a prefix of those below it."""
    return "".join(f"{label}." for label in namespace)


def namespace_of(text: str) -> Namespace:
    """Return the namespace of a metadata value."""
    return tuple(text.split(".")[:-1])


def item_of(op: PutOp, name: str, fields: Sequence[str] | None, times: Times, scope: Scope) -> MemoryItem:
    """Return the item that keeps a value.

    Args:
        op: the value with its namespace and key.
        name: id of the item, see `item_id`.
        fields: paths of the value that are searched, each by itself; None is all of its text as one, none leaves
            it out of searches.
        times: when it was made, and when it ends.
        scope: whom it belongs to.

    Raises:
        ValueError: a key of the value is one of the adapter's own, a number is not finite, or the namespace is that of
            others.
    """
    if op.namespace == OTHERS:
        raise ValueError(f"the namespace {OTHERS!r} is for what others wrote into the memory; choose another one")
    value = dict(checked_metadata(op.value))
    if taken := sorted(RESERVED & value.keys()):
        raise ValueError(f"the key {taken[0]!r} of a value is taken by the store itself; rename it")
    own = {NAMESPACE: namespace_text(op.namespace), KEY: op.key, UPDATED: times.now}
    if times.ttl_minutes is not None:
        own[TTL] = times.ttl_minutes
    indexed = field_paths(value, fields or ())
    text = "\n".join(_lines(value)) if fields is None else _FIELD_END.join(field_texts(value, indexed))
    summary, whole = snapshot_of(text)
    return MemoryItem(
        id=name,
        content_summary=summary,
        # The text of fields is in the metadata.
        input_snapshot=whole if fields is None else None,
        metadata={**value, **own},
        indexed_fields=indexed,
        created_at=times.created_at,
        expires_at=times.expires_at,
        scope=scope,
        provenance=Provenance(kind=SourceKind.NODE, name=SOURCE),
        trust=AGENT_TRUST,
    )


def _lines(value: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the texts of a value, each behind its key unless there is one only."""
    found: list[tuple[str, str]] = []
    _collect(value, path, found)
    return [text for _, text in found] if len(found) == 1 else [f"{key}: {text}" for key, text in found]


def _collect(node: object, path: str, found: list[tuple[str, str]]) -> None:
    if isinstance(node, str):
        if node.strip():
            found.append((path, node))
    elif isinstance(node, Mapping):
        for key, each in node.items():
            _collect(each, f"{path}.{key}" if path else str(key), found)
    elif isinstance(node, list | tuple):
        for each in node:
            _collect(each, path, found)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        found.append((path, str(node)))


def ttl_of(item: MemoryItem) -> float | None:
    """Return the minutes that an item lives after it was written or read; None for an item that stays."""
    minutes = item.metadata.get(TTL) if is_own(item) else None
    return float(minutes) if isinstance(minutes, int | float) else None


def is_own(item: MemoryItem) -> bool:
    """Whether an item was written through this adapter."""
    return item.provenance.name == SOURCE and NAMESPACE in item.metadata and KEY in item.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An item as LangGraph sees it."""

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    ttl_minutes: float | None


def entry_of(item: MemoryItem) -> Entry:
    """Return an item as LangGraph sees it; one that others wrote is in the namespace `OTHERS`, under its id."""
    created = datetime.fromtimestamp(item.created_at, UTC)
    if not is_own(item):
        record = item
        value = {**record.caller_metadata, "text": record.text}
        return Entry(
            namespace=OTHERS, key=item.id, value=value, created_at=created, updated_at=created, ttl_minutes=None
        )
    updated: Any = item.metadata.get(UPDATED, item.created_at)
    return Entry(
        namespace=namespace_of(str(item.metadata[NAMESPACE])),
        key=str(item.metadata[KEY]),
        value={key: each for key, each in item.metadata.items() if key not in RESERVED},
        created_at=created,
        updated_at=datetime.fromtimestamp(float(updated), UTC),
        ttl_minutes=ttl_of(item),
    )
