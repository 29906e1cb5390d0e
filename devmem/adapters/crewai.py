"""A storage backend for CrewAI's memory over a memory; needs the extra `crewai`.

A record is an item that has what CrewAI knows of it beside its metadata, under the key `crewai`.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np

import devmem
from devmem import Filter, Hit, Memory, MemoryItem
from devmem.adapters.hosts import (
    AGENT_TRUST,
    EmbeddedTexts,
    collection_of,
    in_thread,
    require,
    scoped_id,
    shown,
    snapshot_of,
    widened,
    writing,
)
from devmem.errors import VersionConflictError
from devmem.memory import User
from devmem.storage import (
    Order,
    PreparedItem,
    SearchQuery,
    Unique,
    Weights,
    contains,
    differs_from,
    starts_with,
    version_hash,
)
from devmem.stores import (
    MemoryQuery,
    ModelIdentity,
    PassageEmbeddings,
    Provenance,
    SourceKind,
    Vector,
    parse_time,
)

require("crewai.memory.types", package="crewai", extra="crewai")

from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

__all__ = ["DevmemStorage"]

_SOURCE: Final = "crewai"
"""Name of the source of items that are written here, and the metadata key of what CrewAI knows of a record."""
_SCOPE: Final = "crewai.scope"
"""Metadata key of the scope, which ends with a slash, so that no prefix ends inside of a name."""
_OTHERS: Final = "/devmem"
"""Scope of what others wrote into the memory."""
_NOT_OWN: Final = Filter(source_name=differs_from(_SOURCE))
_DIMENSION: Final = 32


def _scope_text(scope: str) -> str:
    """Return the metadata value of a scope, which is a prefix of those below it: `/`, or `/crew/sales/`."""
    names = [name for name in scope.split("/") if name]
    return "/".join(["", *names, ""]) if names else "/"


def _is_own(item: MemoryItem) -> bool:
    """Whether an item was written through this adapter."""
    return item.provenance.name == _SOURCE and _SOURCE in item.metadata


def _naive(when: datetime) -> datetime:
    """Return a time as CrewAI computes with them: UTC, without a zone."""
    return when.astimezone(UTC).replace(tzinfo=None) if when.tzinfo else when


def _item_of(record: MemoryRecord, scope: devmem.Scope) -> MemoryItem:
    """Return the item that keeps a record, without its vector; in another scope it is another item.

    Raises:
        ValueError: a key of its metadata is the adapter's own, or its scope is that of others.
    """
    if taken := {_SOURCE, _SCOPE} & record.metadata.keys():
        raise ValueError(f"the metadata key {min(taken)!r} is taken by the storage itself; rename it")
    if _scope_text(record.scope).startswith(_scope_text(_OTHERS)):
        raise ValueError(f"the scope {_OTHERS!r} is for what others wrote into the memory; choose another one")
    summary, whole = snapshot_of(record.content)
    own = record.model_dump(mode="json", exclude={"content", "scope", "metadata", "created_at", "embedding"})
    accessed = _naive(record.last_accessed).isoformat()
    return MemoryItem(
        id=scoped_id([record.id], scope),
        content_summary=summary,
        input_snapshot=whole,
        metadata={
            **record.metadata,
            _SOURCE: {**own, "last_accessed": accessed},
            _SCOPE: _scope_text(record.scope),
        },
        created_at=parse_time(record.created_at, zone=UTC),
        scope=scope,
        provenance=Provenance(kind=SourceKind.NODE, name=_SOURCE),
        trust=AGENT_TRUST,
    )


def _record_of(item: MemoryItem) -> MemoryRecord:
    """Return an item as CrewAI sees it; one that others wrote is in the scope `/devmem`, under its id."""
    created = datetime.fromtimestamp(item.created_at, UTC).replace(tzinfo=None)
    if not _is_own(item):
        return MemoryRecord(
            id=item.id,
            content=item.text,
            scope=_OTHERS,
            metadata=item.caller_metadata,
            created_at=created,
            last_accessed=created,
            source=item.provenance.name or None,
        )
    meta: Mapping[str, Any] = item.metadata
    return MemoryRecord(
        **meta[_SOURCE],
        scope=meta[_SCOPE].rstrip("/") or "/",
        content=item.input_snapshot.text if item.input_snapshot else item.content_summary,
        metadata={key: value for key, value in meta.items() if key not in (_SOURCE, _SCOPE)},
        created_at=created,
    )


def _below(scope: str | None, *, own_only: bool = False) -> Filter:
    """Return the filter of the items in a scope and below it.

    Args:
        scope: CrewAI's path; None or `/` is everything.
        own_only: whether what others wrote is left out, unless `scope` names it.
    """
    text = _scope_text(scope or "/")
    if text.startswith(_scope_text(_OTHERS)):
        return _NOT_OWN
    own = Filter(source_name=_SOURCE)
    if text == "/":
        return own if own_only else own | _NOT_OWN
    return own & Filter(metadata={_SCOPE: starts_with(text)})


class _RecordCriteria:
    """The part of a choice that the database makes, and the part that is made on the records."""

    def __init__(
        self,
        where: Filter,
        categories: Sequence[str] | None,
        metadata: Mapping[str, Any] | None,
        older_than: datetime | None = None,
    ) -> None:
        plain = {key: value for key, value in (metadata or {}).items() if isinstance(value, str | int | float)}
        # What the database cannot compare, such as lists.
        self.rest = {key: value for key, value in (metadata or {}).items() if key not in plain}
        before = None if older_than is None else parse_time(older_than, zone=UTC)
        self.where = where & Filter(metadata=plain, before=before)
        if categories:
            self.where &= Filter(metadata={f"{_SOURCE}.categories": contains(*categories)})

    def admits(self, item: MemoryItem) -> bool:
        """Whether an item that the database selected is meant."""
        found = _record_of(item).metadata
        return all(found.get(key) == value for key, value in self.rest.items())


def _unit(vector: Sequence[float]) -> Vector | None:
    """Return a vector as one of unit length; None for a zero vector."""
    length = float(np.linalg.norm(vector))
    return np.asarray(vector, dtype=np.float32) / np.float32(length) if length else None


class _TextNames:
    """Makes of each text its own vector, of unit length; equal texts have the same one."""

    identity: Final = ModelIdentity(name="devmem:text-names", dimension=_DIMENSION)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a row for each text."""
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=2 * _DIMENSION).digest() for text in texts)
        numbers: Vector = np.frombuffer(digests, dtype="<i2").reshape(-1, _DIMENSION).astype(np.float32) + 0.5
        numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
        return numbers


class DevmemStorage:
    """Storage of CrewAI's memory in a memory that other programs use at the same time.

    ```python
    with DevmemStorage.open("notes.db") as storage:
        memory = Memory(storage=storage, embedder=storage.embedder, llm=...)
    ```

    With `storage.embedder`, searches find by words as well as by meaning; CrewAI hands on the question's vector alone,
    and the embedder knows what text it made the vector of.
    """

    def __init__(self, memory: Memory, *, track_access: bool = False) -> None:
        """Wrap an opened memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the storage never leaves. Without an embedding model records
                are found by their words, and `storage.embedder` has to be CrewAI's.
            track_access: whether `last_accessed` is written each time that a record is recalled; without it, reading
                writes nothing.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        self._memory, self._store = memory.scoped(), collection_of(memory, "CrewAI's storage")
        self._track_access = track_access
        self.embedder = EmbeddedTexts(self._store.embedder or _TextNames())
        """Embeds texts for CrewAI's `Memory(embedder=...)`."""

    @classmethod
    @contextmanager
    def open(
        cls, place: str | os.PathLike[str], *, embedding: Any = "auto", user: User = None, track_access: bool = False
    ) -> Iterator[DevmemStorage]:
        """Open a memory by its path, as `devmem.open` does, and close it at the end.

        Args:
            place: path of a file, or `:memory:`.
            embedding: the model, as `devmem.open` takes it; None searches by words alone.
            user: whose items are meant; None is the unscoped ones.
            track_access: see the constructor.
        """
        with devmem.open(place, embedding=embedding) as memory:
            part = memory.scoped() if user is None else memory.scoped(user=user)
            yield cls(part, track_access=track_access)

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records, all of them or none; one with a known id replaces the older one.

        Raises:
            EmbeddingDimensionMismatchError: a vector is of another length than the memory's.
            ValueError: a record cannot be stored, see `item_of`.
        """
        scope = self._memory.guard.new_scope()
        items = [_item_of(record, scope) for record in records]
        if not items:
            return
        known = self._store.stored_embeddings(items)
        given = {
            item.id: found
            for item, record in zip(items, records, strict=True)
            if (found := self._given(item, record.embedding)) is not None
        }
        with writing(_SOURCE, self._memory):
            self._store.store_items(items, unique=Unique.ID, embeddings={**known, **given})

    def _given(self, item: MemoryItem, vector: Sequence[float] | None) -> PassageEmbeddings | None:
        """Return a record's own vector as that of each of its passages, where devmem did not make it."""
        if not vector or self._store.embedder is None:
            return None
        self._check_dimension(vector)
        unit = _unit(vector)
        if unit is None or self.embedder.text_of(vector) is not None:
            # The memory's model embeds each passage itself.
            return None
        passages = len(PreparedItem.of(item).passages)
        return PassageEmbeddings(vectors=np.stack([unit] * passages), content_hash=item.content_hash)

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id."""
        self.save([record])

    def touch_records(self, record_ids: list[str]) -> None:
        """Note that records were recalled, where the storage was made with `track_access`.

        One that others change or erase meanwhile stays as they leave it.
        """
        if not self._track_access:
            return
        now = _naive(datetime.now(UTC)).isoformat()
        for item in filter(_is_own, self._items(record_ids, Filter())):
            # Each by itself: a conflict costs only its own note.
            with suppress(VersionConflictError), writing(_SOURCE, self._memory):
                meta: Mapping[str, Any] = item.metadata
                touched = replace(item, metadata={**meta, _SOURCE: {**meta[_SOURCE], "last_accessed": now}})
                self._store.add([touched], expected={item.id: version_hash(item)})

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return at most `limit` records, best first, with scores from 0 to 1.

        A vector of a known text is searched for with the text: by meaning and by words. CrewAI computes with cosines,
        so the order is devmem's and the scores are the hits' cosines in descending order. A hit whose own cosine is
        below `min_score` is left out. Without a model a hit's score is that of its rank.

        Raises:
            EmbeddingDimensionMismatchError: the vector is of another length than the memory's.
            ValueError: the memory has no model, and `embedder` did not make the vector.
        """
        self._check_dimension(query_embedding)
        if limit < 1 or not len(query_embedding):
            return []
        meant = _RecordCriteria(_below(scope_prefix), categories, metadata_filter)
        text, has_model = self.embedder.text_of(query_embedding), self._store.embedder is not None
        if text is None and not has_model:
            raise ValueError("without a model texts are searched: make CrewAI's Memory with embedder=storage.embedder")

        def score_of(hit: Hit) -> float:
            # A text that is not embedded yet has no cosine.
            return max(hit.similarity or 0.0, 0.0) if has_model else min(max(hit.score, 0.0), 1.0)

        def found() -> list[Hit]:
            where = self._memory.guard.matching(meant.where)
            hits = widened(
                lambda asked: self._ranked(text, query_embedding, asked, where),
                lambda hit: meant.admits(hit.item),
                limit,
                filtered=bool(meant.rest),
            )
            return [hit for hit in hits if score_of(hit) >= min_score]

        hits = shown(_SOURCE, self._memory, text or "", found)
        scores = sorted(map(score_of, hits), reverse=True)
        return [(_record_of(hit.item), score) for hit, score in zip(hits, scores, strict=True)]

    def _check_dimension(self, vector: Sequence[float]) -> None:
        """Refuse a vector of another length than those of the memory, once that is known."""
        model = self._store.embedder
        expected = model.identity.dimension if model else None
        if expected is not None and len(vector) and len(vector) != expected:
            raise EmbeddingDimensionMismatchError(expected, len(vector))

    def _ranked(self, text: str | None, vector: Sequence[float], limit: int, where: Filter) -> Sequence[Hit]:
        # Two records of the same text are two records here, not one that is found twice.
        ranking = replace(self._store.ranking, collapse=False)
        if text is not None:
            asked = MemoryQuery(text=text, limit=limit, where=where)
            query = self._store.search_query(asked, limit=self._store.search_depth(limit), ranking=ranking)
            return self._store.rerank(asked, self._store.collection.search(query)).hits
        unit = _unit(vector)
        if unit is None:
            return []
        by_meaning = Weights(similarity=1.0, lexical=0.0)
        return self._store.collection.search(
            SearchQuery(vector=unit, limit=limit, where=where, weights=by_meaning, ranking=ranking)
        ).hits

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Erase the records that meet all of the conditions; return their number.

        What others wrote is erased where an id or the scope `/devmem` names it.
        """
        meant = _RecordCriteria(
            _below(scope_prefix, own_only=record_ids is None), categories, metadata_filter, older_than
        )
        if record_ids is None and not meant.rest:
            return self._store.erase(where=self._memory.guard.matching(meant.where))
        found = self._scan(meant.where) if record_ids is None else self._items(record_ids, meant.where)
        ids = [item.id for item in found if meant.admits(item)]
        return self._store.erase(ids=ids) if ids else 0

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase all records in a scope and below it; what others wrote only where the scope is `/devmem`."""
        self._store.erase(where=self._memory.guard.matching(_below(scope_prefix, own_only=True)))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record by its id; None when there is none."""
        return next((_record_of(item) for item in self._items([record_id], Filter())), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records in a scope and below it, newest first."""
        where = self._memory.guard.matching(_below(scope_prefix))
        return [_record_of(item) for item in self._store.recent(limit, where, order=Order.EVENT, offset=offset)]

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and below it."""
        return self._store.count(self._memory.guard.matching(_below(scope_prefix)))

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Describe a scope: its records, categories and times, with those below it."""
        records = [_record_of(item) for item in self._scan(_below(scope))]
        times = [record.created_at for record in records]
        return ScopeInfo(
            path=_scope_text(scope).rstrip("/") or "/",
            record_count=len(records),
            categories=sorted({each for record in records for each in record.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes right below a scope, in order."""
        top = _scope_text(parent)
        own = self._memory.guard.matching(Filter(source_name=_SOURCE))
        texts = self._store.values(f"metadata.{_SCOPE}", own, prefix=top)
        children = {top + str(text).removeprefix(top).split("/", 1)[0] for text in texts if str(text) != top}
        if top == "/" and self._store.recent(1, self._memory.guard.matching(_NOT_OWN)):
            children.add(_OTHERS)
        return sorted(children)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category."""
        records = (_record_of(item) for item in self._scan(_below(scope_prefix)))
        return dict(Counter(category for record in records for category in record.categories))

    def _items(self, record_ids: Sequence[str], where: Filter) -> list[MemoryItem]:
        """Return the items of records that match a filter; an item that others wrote has its own id."""
        reach, now = self._memory.guard.matching(where), self._store.setup.clock()
        own = [scoped_id([each], self._memory.guard.new_scope()) for each in record_ids]
        found = [item for item in self._store.get([*own, *record_ids]) if reach.admits(item, now)]
        return [item for item in found if item.id in own or not _is_own(item)]

    def _scan(self, where: Filter) -> Iterator[MemoryItem]:
        yield from self._store.scan(self._memory.guard.matching(where))

    asave, asearch, adelete = in_thread(save), in_thread(search), in_thread(delete)
