"""Reading LangGraph's items: by key, by filter, and by a query."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias

from langgraph.store.base import SearchItem, SearchOp

from devmem import Filter, Hit, Memory, MemoryItem
from devmem.adapters.hosts import widened
from devmem.adapters.langgraph.items import (
    NAMESPACE,
    OTHERS,
    SOURCE,
    Namespace,
    entry_of,
    is_own,
    item_id,
    namespace_text,
    ttl_of,
)
from devmem.errors import VersionConflictError
from devmem.storage import (
    Condition,
    Weights,
    above,
    at_least,
    at_most,
    below,
    differs_from,
    one_of,
    starts_with,
    version_hash,
)
from devmem.stores import CollectionMemory, MemoryQuery

Conditions: TypeAlias = dict[str, str | int | float | bool | Condition]
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

_PLAIN_KEY: Final = re.compile(r"[\w\-.]+")
_OPERATORS: Final[Mapping[str, Callable[[Any], Condition]]] = {
    "$eq": one_of,
    "$ne": differs_from,
    "$gt": above,
    "$gte": at_least,
    "$lt": below,
    "$lte": at_most,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFilter:
    """A filter on values, in two parts that must both hold."""

    conditions: Conditions
    """Conditions that the database decides, by top-level key."""
    rest: Predicate | None
    """Predicate for the rest: nested values, lists, several conditions on one key."""


def value_filter(wanted: Mapping[str, Any] | None) -> ValueFilter:
    """Return the filter that LangGraph words as `{"key": value}` or `{"key": {"$gt": value}}`.

    Raises:
        ValueError: a key or an operator is none.
    """
    conditions: Conditions = {}
    rest: dict[str, Any] = {}
    for key, value in (wanted or {}).items():
        if not _PLAIN_KEY.fullmatch(key):
            raise ValueError(f"Invalid filter key: {key!r} has other characters than letters, digits, '_', '-' and '.'")
        condition = None if "." in key else _condition(value)
        if condition is None:
            rest[key] = value
        else:
            conditions[key] = condition
    return ValueFilter(conditions=conditions, rest=(lambda value: _matches_all(value, rest)) if rest else None)


def _condition(wanted: Any) -> str | int | float | bool | Condition | None:  # noqa: ANN401 - any JSON value
    """Return the condition of one key; None where the database has none for it."""
    if _is_comparable(wanted):
        return wanted  # type: ignore[no-any-return]
    if not isinstance(wanted, Mapping) or len(wanted) != 1:
        return None
    ((operator, value),) = wanted.items()
    if operator not in _OPERATORS or not _is_comparable(value):
        return None
    if isinstance(value, bool) and operator not in ("$eq", "$ne"):
        return None
    return _OPERATORS[operator](value)


def _is_comparable(value: object) -> bool:
    return isinstance(value, str | int | float) and value == value and _is_exact(value)


def _is_exact(value: str | int | float) -> bool:
    """Whether a number is one that a database compares exactly; texts are."""
    return isinstance(value, str) or abs(value) < 2**63


def _matches_all(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_matches(_at(value, key), each) for key, each in wanted.items())


def _at(value: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a key, or of a path of keys where there is no such key; None where there is neither."""
    if key in value:
        return value[key]
    node: Any = value
    for step in key.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node


def _matches(found: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_compares(found, operator, value) for operator, value in wanted.items())
        return isinstance(found, Mapping) and all(_matches(found.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(_matches, found, wanted))
    return bool(found == wanted)


def _compares(found: Any, operator: str, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    if operator not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
    if operator in ("$eq", "$ne"):
        return (found == wanted) is (operator == "$eq")
    both_text = isinstance(found, str) and isinstance(wanted, str)
    if not both_text and not (_is_number(found) and _is_number(wanted)):
        return False
    if operator in ("$gt", "$gte"):
        return bool(found > wanted or (operator == "$gte" and found == wanted))
    return bool(found < wanted or (operator == "$lte" and found == wanted))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_PAGE: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Results of a search, and the items behind them."""

    results: list[SearchItem]
    items: list[MemoryItem]


class Reader:
    """Reads the part of a memory that a handle reaches."""

    def __init__(self, memory: Memory, store: CollectionMemory, *, by_cosine: bool) -> None:
        self._memory, self._store, self._by_cosine = memory, store, by_cosine

    def get(self, namespace: Namespace, key: str) -> MemoryItem | None:
        """Return the item of a key; None when there is none within reach."""
        own = item_id(namespace, key, self._memory.new_scope())
        reach, now = self._memory.matching(), self._store.setup.clock()
        ids = [own, key] if namespace == OTHERS else [own]
        items = [item for item in self._store.get(ids) if reach.admits(item, now)]
        return next((item for item in items if item.id == own or not is_own(item)), None)

    def search(self, op: SearchOp) -> Found:
        """Return the items below a namespace: the best of a query, or else those stored last.

        Where a query finds fewer than are wanted, those that it did not find follow without a score, as in LangGraph's
        own stores.
        """
        wanted = value_filter(op.filter)
        where = self._memory.matching(_below(op.namespace_prefix, wanted))
        end = op.offset + op.limit
        began = time.perf_counter()
        hits = self._hits(op.query, end, where, wanted) if op.query else []
        scored: list[tuple[MemoryItem, float | None]] = [(hit.item, self._score(hit)) for hit in hits]
        if len(scored) < end:
            seen = {item.id for item, _ in scored}
            rest = (item for item in self._newest(where) if item.id not in seen and _passes(item, wanted))
            scored += [(item, None) for item in islice(rest, end - len(scored))]
        page = scored[op.offset : end]
        if op.query:
            found = {hit.item.id: hit for hit in hits}
            shown = [found.get(item.id) or Hit(item=item, score=0.0) for item, _ in page]
            self._memory.record_recall(op.query, shown, host=SOURCE, began=began)
        return Found(results=[_result(item, score) for item, score in page], items=[item for item, _ in page])

    def refresh(self, items: Sequence[MemoryItem]) -> None:
        """Start the time to live of the items again, of those that have one and are still as they were read."""
        now = self._store.setup.clock()
        for item in items:
            if minutes := ttl_of(item):
                again = replace(item, expires_at=now + 60 * minutes)
                # A put that came in between started its own time value; a delete ended it.
                with suppress(VersionConflictError):
                    self._store.add([again], expected={item.id: version_hash(item)})

    def _hits(self, query: str, limit: int, where: Filter, wanted: ValueFilter) -> list[Hit]:
        return widened(
            lambda asked: self._ranked(query, asked, where),
            lambda hit: _passes(hit.item, wanted),
            limit,
            filtered=wanted.rest is not None,
        )

    def _ranked(self, query: str, limit: int, where: Filter) -> list[Hit]:
        asked = MemoryQuery(text=query, limit=limit, where=where)
        if not self._by_cosine:
            # Two keys of the same text are two items here, not one that is found twice.
            ranking = replace(self._store.ranking, collapse=False)
            every = self._store.search_query(asked, limit=self._store.search_depth(limit), ranking=ranking)
            return list(self._store.rerank(asked, self._store.collection.search(every)).hits)
        nearest = self._store.search_query(asked, limit=limit, weights=Weights(similarity=1.0, lexical=0.0))
        hits = [hit for hit in self._store.collection.search(nearest) if hit.similarity is not None]
        return sorted(hits, key=lambda hit: -(hit.similarity or 0.0))

    def _score(self, hit: Hit) -> float:
        return float(hit.similarity or 0.0) if self._by_cosine else float(hit.score)

    def _newest(self, where: Filter) -> Iterator[MemoryItem]:
        offset = 0
        while page := self._store.recent(_PAGE, where, offset=offset):
            yield from page
            offset += len(page)


def _below(prefix: Namespace, wanted: ValueFilter) -> Filter:
    """Return the filter of the items whose namespace begins with a prefix."""
    if not prefix:
        return Filter(metadata=wanted.conditions)
    own = Filter(metadata={NAMESPACE: starts_with(namespace_text(prefix))}, source_name=SOURCE)
    if prefix != OTHERS:
        return replace(own, metadata={**own.metadata, **wanted.conditions})
    return Filter(metadata=wanted.conditions, any_of=(own, Filter(source_name=differs_from(SOURCE))))


def _passes(item: MemoryItem, wanted: ValueFilter) -> bool:
    return wanted.rest is None or wanted.rest(entry_of(item).value)


def _result(item: MemoryItem, score: float | None) -> SearchItem:
    entry = entry_of(item)
    return SearchItem(
        namespace=entry.namespace,
        key=entry.key,
        value=entry.value,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        score=score,
    )
