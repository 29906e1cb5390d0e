"""A LangGraph store over a memory; needs the extra `langgraph`.

A value is an item whose source is its namespace below `langgraph`, each label followed by a period, so that no prefix
ends inside of a label and the index of sources finds what is below a namespace.
"""

from __future__ import annotations

import asyncio
import operator
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any, Final, Literal, TypeAlias

import numpy as np

import devmem
from devmem import Filter, Hit, Memory, MemoryItem, Scope
from devmem.adapters.hosts import (
    AGENT_TRUST,
    collection_of,
    require,
    scoped_id,
    snapshot_of,
    widened,
    writing,
)
from devmem.errors import EmbeddingUnavailableError, VersionConflictError
from devmem.memory import User, checked_metadata, record_recall
from devmem.storage import (
    Condition,
    Unique,
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
from devmem.stores import MemoryQuery, ModelIdentity, Provenance, SourceKind, Vector, texts_at

require("langgraph.store.base", package="langgraph", extra="langgraph")

from langchain_core.embeddings import Embeddings
from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)
from langgraph.store.base.embed import EmbeddingsLambda

__all__ = ["DevmemStore", "embedder_of"]

Namespace: TypeAlias = tuple[str, ...]
Scores: TypeAlias = Literal["relevance", "cosine"]
"""`relevance` ranks by meaning and words, as devmem does; `cosine` by the cosine of the embeddings alone."""

_HOST: Final = "langgraph"
_KEY: Final = "langgraph.key"
_UPDATED: Final = "langgraph.updated_at"
_TTL: Final = "langgraph.ttl_minutes"
_RESERVED: Final = frozenset({_KEY, _UPDATED, _TTL})
"""Metadata keys beside those of the value."""
_OTHERS: Final[Namespace] = ("devmem",)
"""Namespace of what others wrote into the memory."""
_BEFORE_OWN: Final = Filter(source_name=below(f"{_HOST}."))
_AFTER_OWN: Final = Filter(source_name=at_least(f"{_HOST}/"))
"""Sources that come before and after those of values in order."""
_WHOLE: Final = "$"
"""LangGraph's path of a whole value."""
_ANY_LABEL: Final = "*"
_PAGE: Final = 256


class DevmemStore(BaseStore):  # type: ignore[misc] # LangGraph is not in the environment of the type checkers
    """Long-term memory of LangGraph agents in a memory that other programs use at the same time.

    ```python
    with DevmemStore.open("notes.db", user="ann") as store:
        graph = builder.compile(store=store)
    ```

    Puts of a batch are stored in one transaction after its reads. What others wrote into the memory is in the namespace
    `("devmem",)`, where it can be read and deleted.
    """

    supports_ttl = True

    __slots__ = ("_by_cosine", "_memory", "_store", "index_config", "ttl_config")

    def __init__(
        self,
        memory: Memory,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        scores: Scores = "relevance",
    ) -> None:
        """Wrap an opened memory, whose embedding model counts; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the store never leaves.
            index: `fields` names the parts of a value that are searched; without it all of its text is.
            ttl: minutes after which items expire, and whether reading them starts the time again.
            scores: what search results are ranked by.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self._memory, self._store = memory.scoped(), collection_of(memory, "a LangGraph store")
        self.index_config, self.ttl_config = index, ttl
        self._by_cosine = scores == "cosine"

    @classmethod
    @contextmanager
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        scores: Scores = "relevance",
        user: User = None,
    ) -> Iterator[DevmemStore]:
        """Open a memory by its path, as `devmem.open` does, and close it at the end.

        Args:
            place: path of a file, or `:memory:`.
            index: `embed` and `dims` name LangChain's embedding model; without them devmem's own is used.
            ttl: see the constructor.
            scores: see the constructor.
            user: whose items are meant; None is the unscoped ones.
        """
        model: Any = embedder_of(index) if index and index.get("embed") else "auto"
        with devmem.open(place, embedding=model) as memory:
            part = memory.scoped() if user is None else memory.scoped(user=user)
            yield cls(part, index=index, ttl=ttl, scores=scores)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations: the reads first, then the puts, of which the last one of a key counts.

        Raises:
            ValueError: a namespace, a filter or a value cannot be stored.
            CollectionError: the memory cannot be read or written.
        """
        asked = list(ops)
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}
        for namespace, _ in puts:
            # Another namespace could have the text of one with a period; `BaseStore.put` checks this, a batch does not.
            for label in namespace:
                if not isinstance(label, str) or not label or "." in label:
                    raise InvalidNamespaceError(
                        f"{label!r} in {namespace!r} is not a label: text without periods, not empty"
                    )
        # Reads may start a time to live again.
        with writing(_HOST, self._memory):
            results = [None if isinstance(op, PutOp) else self._read(op) for op in asked]
            self._write(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out the operations in a thread; see `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: GetOp | SearchOp | ListNamespacesOp) -> Result:
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        if isinstance(op, SearchOp):
            found = self._found(op)
            if op.refresh_ttl:
                self._refresh([item for item, _ in found])
            return [SearchItem(**_form(item), score=score) for item, score in found]
        if not isinstance(op, GetOp):
            raise ValueError(f"{type(op).__name__} is not an operation of a store")  # noqa: TRY004 - as in LangGraph
        item = self._item(op.namespace, op.key)
        if item is not None and op.refresh_ttl:
            self._refresh([item])
        return None if item is None else Item(**_form(item))

    def _item(self, namespace: Namespace, key: str) -> MemoryItem | None:
        own = scoped_id([namespace, key], self._memory.guard.new_scope())
        reach, now = self._memory.guard.matching(), self._store.setup.clock()
        ids = [own, key] if namespace == _OTHERS else [own]
        items = [item for item in self._store.get(ids) if reach.admits(item, now)]
        return next((item for item in items if item.id == own or not _is_own(item)), None)

    def _found(self, op: SearchOp) -> list[tuple[MemoryItem, float | None]]:
        """Return the items below a namespace: the best of a query, or else those stored last.

        Where a query finds fewer than are wanted, those that it did not find follow without a score, as in LangGraph's
        own stores.
        """
        wanted = _value_filter(op.filter)
        where = self._memory.guard.matching(_below(op.namespace_prefix, wanted))
        if not op.query and wanted.rest is None:
            return [(item, None) for item in self._store.recent(op.limit, where, offset=op.offset)]
        end, began = op.offset + op.limit, time.perf_counter()
        hits = self._hits(op.query, end, where, wanted) if op.query else []
        scored: list[tuple[MemoryItem, float | None]] = [(hit.item, hit.score) for hit in hits]
        if len(scored) < end:
            seen = {item.id for item, _ in scored}
            rest = (item for item in self._newest(where) if item.id not in seen and wanted.admits(item))
            scored += [(item, None) for item in islice(rest, end - len(scored))]
        page = scored[op.offset :]
        if op.query:
            found = {hit.item.id: hit for hit in hits}
            shown = [found.get(item.id) or Hit(item=item, score=0.0) for item, _ in page]
            record_recall(self._memory, op.query, shown, host=_HOST, began=began)
        return page

    def _hits(self, query: str, limit: int, where: Filter, wanted: _ValueFilter) -> list[Hit]:
        # Two keys of the same text are two items here, not one that is found twice.
        asked = MemoryQuery(text=query, where=where, collapse=False)
        weights = Weights(similarity=1.0, lexical=0.0) if self._by_cosine else None
        given = self._store.search_query(asked, limit=limit, weights=weights)

        def ranked(count: int) -> Sequence[Hit]:
            if not self._by_cosine:
                report = self._store.collection.search(replace(given, limit=self._store.search_depth(count)))
                return self._store.rerank(replace(asked, limit=count), report).hits
            hits = self._store.collection.search(replace(given, limit=count))
            by_cosine = (replace(hit, score=hit.similarity) for hit in hits if hit.similarity is not None)
            return sorted(by_cosine, key=lambda hit: -hit.score)

        pool = min(given.candidates, given.ranking.depth)
        return widened(ranked, lambda hit: wanted.admits(hit.item), limit, pool=pool, filtered=wanted.rest is not None)

    def _newest(self, where: Filter) -> Iterator[MemoryItem]:
        offset = 0
        while page := self._store.recent(_PAGE, where, offset=offset):
            yield from page
            offset += len(page)

    def _refresh(self, items: Sequence[MemoryItem]) -> None:
        """Start the time to live of the items again, of those that have one and are still as they were read."""
        now = self._store.setup.clock()
        for item in items:
            minutes = item.metadata.get(_TTL) if _is_own(item) else None
            if isinstance(minutes, int | float):
                again = replace(item, expires_at=now + 60 * minutes)
                # A put that came in between started its own time; a delete ended it.
                with suppress(VersionConflictError):
                    self._store.add([again], expected={item.id: version_hash(item)})

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        """Return the namespaces that have items, in order."""
        conditions = op.match_conditions or ()
        prefixes = [tuple(each.path) for each in conditions if each.match_type == "prefix"]
        known = max(
            (tuple(takewhile(lambda label: label != _ANY_LABEL, each)) for each in prefixes), key=len, default=()
        )
        reach = self._memory.guard.matching
        texts = self._store.values("source_name", reach(), prefix=_source(known))
        found = {tuple(str(text).split(".")[1:-1]) for text in texts}
        if any(self._store.values("source_name", reach(others), limit=1) for others in (_BEFORE_OWN, _AFTER_OWN)):
            found.add(_OTHERS)
        matching = (each for each in found if all(_matches_path(each, condition) for condition in conditions))
        cut = sorted({each[: op.max_depth] for each in matching})
        return cut[op.offset : op.offset + op.limit]

    def _write(self, puts: Sequence[PutOp]) -> None:
        scope, now = self._memory.guard.new_scope(), self._store.setup.clock()
        named = {scoped_id([op.namespace, op.key], scope): op for op in puts}
        created = {item.id: item.created_at for item in self._store.get(list(named))}
        items = [
            _item_of(op, name, self._fields(op), scope, now=now, created_at=created.get(name, now))
            for name, op in named.items()
            if op.value is not None
        ]
        if items:
            self._store.store_items(items, unique=Unique.ID, embeddings=self._store.stored_embeddings(items))
        deleted = {name: op for name, op in named.items() if op.value is None}
        ids = [*deleted, *(op.key for op in deleted.values() if op.namespace == _OTHERS)]
        if ids:
            self._store.erase(ids=ids, where=self._memory.guard.matching())

    def _fields(self, op: PutOp) -> Sequence[str] | None:
        """Return the parts of a value that are searched; None for all of its text."""
        if op.index is False:
            return ()
        fields = op.index or (self.index_config or {}).get("fields") or [_WHOLE]
        return None if _WHOLE in fields else fields


def _source(namespace: Namespace) -> str:
    """Return the name of the source of the values of a namespace, which begins those of the ones below it."""
    return "".join(f"{label}." for label in (_HOST, *namespace))


def _is_own(item: MemoryItem) -> bool:
    return item.provenance.name.startswith(f"{_HOST}.") and _KEY in item.metadata


def _below(prefix: Namespace, wanted: _ValueFilter) -> Filter:
    """Return the filter of the items whose namespace begins with a prefix."""
    own = Filter(source_name=starts_with(_source(prefix)))
    if not prefix:
        return Filter(metadata=wanted.conditions)
    if prefix == _OTHERS:
        return Filter(metadata=wanted.conditions, any_of=(own, _BEFORE_OWN, _AFTER_OWN))
    return replace(own, metadata=wanted.conditions)


def _matches_path(namespace: Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"{condition.match_type!r} is not a match type; there are 'prefix' and 'suffix'")
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in (_ANY_LABEL, label) for wanted, label in zip(path, labels, strict=True))


def _item_of(
    op: PutOp, name: str, fields: Sequence[str] | None, scope: Scope, *, now: float, created_at: float
) -> MemoryItem:
    """Return the item that keeps a value.

    Args:
        op: the value with its namespace and key.
        name: id of the item.
        fields: paths of the value that are searched, each by itself; None is all of its text as one, none leaves
            it out of searches.
        scope: whom it belongs to.
        now: seconds since the epoch.
        created_at: when the key got its first value.

    Raises:
        ValueError: a key of the value is one of the adapter's own, a number is not finite, or the namespace is that of
            others.
    """
    if op.namespace == _OTHERS:
        raise ValueError(f"the namespace {_OTHERS!r} is for what others wrote into the memory; choose another one")
    value = dict(checked_metadata(op.value))
    if taken := sorted(_RESERVED & value.keys()):
        raise ValueError(f"the key {taken[0]!r} of a value is taken by the store itself; rename it")
    indexed = _field_paths(value, fields or ())
    if fields is None:
        texts = list(_texts_in(value, ""))
        text = texts[0][1] if len(texts) == 1 else "\n".join(f"{key}: {each}" for key, each in texts)
    else:
        # A paragraph for each field.
        text = "\n\n".join(found.text for path in indexed for found in texts_at(value, path))
    summary, whole = snapshot_of(text)
    return MemoryItem(
        id=name,
        content_summary=summary,
        # The text of fields is in the metadata.
        input_snapshot=whole if fields is None else None,
        metadata={**value, _KEY: op.key, _UPDATED: now, **({} if op.ttl is None else {_TTL: op.ttl})},
        indexed_fields=indexed,
        created_at=created_at,
        expires_at=None if op.ttl is None else now + 60 * op.ttl,
        scope=scope,
        provenance=Provenance(kind=SourceKind.NODE, name=_source(op.namespace)),
        trust=AGENT_TRUST,
    )


def _form(item: MemoryItem) -> dict[str, Any]:
    """Return an item as LangGraph sees it; one that others wrote is in the namespace `_OTHERS`, under its id."""
    created = updated = datetime.fromtimestamp(item.created_at, UTC)
    if _is_own(item):
        namespace, key = tuple(item.provenance.name.split(".")[1:-1]), str(item.metadata[_KEY])
        value = {name: each for name, each in item.metadata.items() if name not in _RESERVED}
        updated = datetime.fromtimestamp(float(str(item.metadata[_UPDATED])), UTC)
    else:
        namespace, key, value = _OTHERS, item.id, {**item.caller_metadata, "text": item.text}
    return {"namespace": namespace, "key": key, "value": value, "created_at": created, "updated_at": updated}


# Fields of a value.

_CHOICE: Final = re.compile(r"\{([^{}]*)\}")


def _field_paths(value: Mapping[str, Any], fields: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that LangGraph's mean: `{a,b}` is one for each of its fields, and `*` any key of the value."""
    paths = []
    for path in (path for field in fields for path in _choices(field)):
        first, period, rest = path.partition(".")
        # The item has more keys than the value.
        paths += [f"{key}{period}{rest}" for key in value] if first == "*" else [path]
    return tuple(dict.fromkeys(paths))


def _choices(field: str) -> Iterator[str]:
    found = _CHOICE.search(field)
    if found is None:
        yield field
        return
    start, end = field[: found.start()], field[found.end() :]
    for one in found[1].split(","):
        yield from _choices(f"{start}.{one.strip()}{end}".lstrip(".").replace("..", "."))


def _texts_in(node: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the texts and numbers in a value, each with its path."""
    if isinstance(node, str):
        if node.strip():
            yield path, node
    elif isinstance(node, Mapping):
        for key, each in node.items():
            yield from _texts_in(each, f"{path}.{key}" if path else str(key))
    elif isinstance(node, list | tuple):
        for each in node:
            yield from _texts_in(each, path)
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield path, str(node)


# Filters on values.

_PLAIN_KEY: Final = re.compile(r"[\w\-.]+")
_OPERATORS: Final[Mapping[str, tuple[Callable[[Any], Condition], Callable[[Any, Any], bool]]]] = {
    "$eq": (one_of, operator.eq),
    "$ne": (differs_from, operator.ne),
    "$gt": (above, operator.gt),
    "$gte": (at_least, operator.ge),
    "$lt": (below, operator.lt),
    "$lte": (at_most, operator.le),
}
"""LangGraph's operators, as databases compare and as Python does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ValueFilter:
    """A filter on values, in two parts that must both hold."""

    conditions: dict[str, str | int | float | bool | Condition]
    """Conditions that the database decides, by top-level key."""
    rest: Mapping[str, Any] | None
    """The others: nested values, lists, several conditions on one key."""

    def admits(self, item: MemoryItem) -> bool:
        """Whether an item that the database found is meant."""
        if self.rest is None:
            return True
        value = _form(item)["value"]
        return all(_matches(_at(value, key), wanted) for key, wanted in self.rest.items())


def _value_filter(wanted: Mapping[str, Any] | None) -> _ValueFilter:
    """Return the filter that LangGraph words as `{"key": value}` or `{"key": {"$gt": value}}`.

    Raises:
        ValueError: a key is malformed.
    """
    conditions: dict[str, str | int | float | bool | Condition] = {}
    rest: dict[str, Any] = {}
    for key, value in (wanted or {}).items():
        if not _PLAIN_KEY.fullmatch(key):
            raise ValueError(f"Invalid filter key: {key!r} has other characters than letters, digits, '_', '-' and '.'")
        condition = None if "." in key else _condition(value)
        if condition is None:
            rest[key] = value
        else:
            conditions[key] = condition
    return _ValueFilter(conditions=conditions, rest=rest or None)


def _condition(wanted: Any) -> str | int | float | bool | Condition | None:
    """Return the condition of one key; None where the database has none for it."""
    if _is_comparable(wanted):
        return wanted  # type: ignore[no-any-return]
    if not isinstance(wanted, Mapping) or len(wanted) != 1:
        return None
    ((name, value),) = wanted.items()
    is_ordered = name in ("$eq", "$ne") or not isinstance(value, bool)
    return _OPERATORS[name][0](value) if name in _OPERATORS and _is_comparable(value) and is_ordered else None


def _is_comparable(value: object) -> bool:
    """Whether it is text, or a number that a database compares exactly."""
    return isinstance(value, str) or (isinstance(value, int | float) and value == value and abs(value) < 2**63)


def _at(value: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, or of a path of keys where there is no such key; None where there is neither."""
    if key in value:
        return value[key]
    node: Any = value
    for step in key.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_compares(found, name, value) for name, value in wanted.items())
        return isinstance(found, Mapping) and all(_matches(found.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(_matches, found, wanted))
    return bool(found == wanted)


def _compares(found: Any, name: str, wanted: Any) -> bool:
    if name not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {name!r}; there are {', '.join(_OPERATORS)}")
    are_texts = isinstance(found, str) and isinstance(wanted, str)
    are_numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (found, wanted))
    if name in ("$eq", "$ne") or are_texts or are_numbers:
        return bool(_OPERATORS[name][1](found, wanted))
    return False


# Embedding.


def embedder_of(index: IndexConfig) -> LangChainEmbedder:
    """Return the embedder that an index configuration names: `embed` with vectors of the length `dims`.

    Raises:
        TypeError: it is an asynchronous function alone, which threads without an event loop cannot call.
    """
    model = ensure_embeddings(index.get("embed"))
    if isinstance(model, EmbeddingsLambda) and getattr(model, "func", None) is None:
        raise TypeError("`embed` is an async function; hand over a plain one, or an Embeddings object")
    known = getattr(model, "model", None) or getattr(model, "model_name", None) or type(model).__name__
    identity = ModelIdentity(name=f"langchain:{known}:{index['dims']}", dimension=index["dims"])
    return LangChainEmbedder(model, identity)


@dataclass(frozen=True, slots=True)
class LangChainEmbedder:
    """An `Embedder` that asks a LangChain model."""

    model: Embeddings
    identity: ModelIdentity
    asks: bool = False
    """Whether texts are embedded as questions are."""

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts; each row of the result is of unit length, shape (len(texts), dimension).

        Raises:
            EmbeddingUnavailableError: the model failed, in whatever way its provider fails.
        """
        try:
            raw = [*map(self.model.embed_query, texts)] if self.asks else self.model.embed_documents(list(texts))
        except Exception as error:
            raise EmbeddingUnavailableError(f"{self.identity.name}: {type(error).__name__}: {error}") from error
        vectors = np.asarray(raw, dtype=np.float32).reshape(len(texts), -1)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def for_queries(self) -> LangChainEmbedder:
        """Return the embedder of the same model for questions."""
        return replace(self, asks=True)
