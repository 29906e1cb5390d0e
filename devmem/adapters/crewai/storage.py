"""CrewAI's `StorageBackend` over a memory."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError
from crewai.memory.types import MemoryRecord, ScopeInfo

import devmem
from devmem import Hit, Memory, MemoryItem
from devmem.adapters.crewai.records import (
    OTHERS,
    SCOPE,
    SOURCE,
    below,
    is_own,
    item_id,
    item_of,
    path_of,
    record_from,
    scope_text,
    selected,
    touched,
)
from devmem.adapters.hosts import EmbeddedTexts, collection_of, in_thread, shown, widened, writing
from devmem.errors import VersionConflictError
from devmem.memory import User
from devmem.storage import Filter, Order, PreparedItem, SearchQuery, Unique, Weights, differs_from, version_hash
from devmem.stores import MemoryQuery, ModelIdentity, PassageEmbeddings, Vector


def _unit(vector: Sequence[float]) -> Vector | None:
    """Return a vector as one of unit length; None for a zero vector."""
    length = float(np.linalg.norm(vector))
    return np.asarray(vector, dtype=np.float32) / np.float32(length) if length else None


_DIMENSION: Final = 32


class TextNames:
    """Makes of each text its own vector, of unit length; equal texts have the same one."""

    identity: Final = ModelIdentity(name="devmem:text-names", dimension=_DIMENSION)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Return a row for each text."""
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=2 * _DIMENSION).digest() for text in texts)
        numbers: Vector = np.frombuffer(digests, dtype="<i2").reshape(-1, _DIMENSION).astype(np.float32) + 0.5
        numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
        return numbers


_PAGE: Final = 256


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
        self.embedder = EmbeddedTexts(self._store.embedder or TextNames())
        """Embeds texts for CrewAI's `Memory(embedder=...)`."""

    @classmethod
    @contextmanager
    def open(
        cls,
        place: str | os.PathLike[str],
        *,
        embedding: Any = "auto",  # noqa: ANN401 - as `devmem.open` takes it
        user: User = None,
        track_access: bool = False,
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
        items = [item_of(record, scope) for record in records]
        if not items:
            return
        known = self._store.stored_embeddings(items)
        given = {
            item.id: found
            for item, record in zip(items, records, strict=True)
            if (found := self._given(item, record.embedding)) is not None
        }
        with writing(SOURCE, self._memory):
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
        now = datetime.now(UTC)
        for item in filter(is_own, self._items(record_ids, Filter())):
            # Each by itself: a conflict costs only its own note.
            with suppress(VersionConflictError), writing(SOURCE, self._memory):
                self._store.add([touched(item, now)], expected={item.id: version_hash(item)})

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
        meant = selected(below(scope_prefix), categories, metadata_filter)
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
                lambda hit: meant.admits(record_from(hit.item)),
                limit,
                filtered=meant.rest is not None,
            )
            return [hit for hit in hits if score_of(hit) >= min_score]

        hits = shown(SOURCE, self._memory, text or "", found)
        scores = sorted(map(score_of, hits), reverse=True)
        return [(record_from(hit.item), score) for hit, score in zip(hits, scores, strict=True)]

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
        meant = selected(below(scope_prefix, own_only=record_ids is None), categories, metadata_filter, older_than)
        if record_ids is None and meant.rest is None:
            return self._store.erase(where=self._memory.guard.matching(meant.where))
        found = self._scan(meant.where) if record_ids is None else self._items(record_ids, meant.where)
        ids = [item.id for item in found if meant.admits(record_from(item))]
        return self._store.erase(ids=ids) if ids else 0

    def reset(self, scope_prefix: str | None = None) -> None:
        """Erase all records in a scope and below it; what others wrote only where the scope is `/devmem`."""
        self._store.erase(where=self._memory.guard.matching(below(scope_prefix, own_only=True)))

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return a record by its id; None when there is none."""
        return next((record_from(item) for item in self._items([record_id], Filter())), None)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records in a scope and below it, newest first."""
        where = self._memory.guard.matching(below(scope_prefix))
        return [record_from(item) for item in self._store.recent(limit, where, order=Order.EVENT, offset=offset)]

    def count(self, scope_prefix: str | None = None) -> int:
        """Return the number of records in a scope and below it."""
        return self._store.count(self._memory.guard.matching(below(scope_prefix)))

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Describe a scope: its records, categories and times, with those below it."""
        records = [record_from(item) for item in self._scan(below(scope))]
        times = [record.created_at for record in records]
        return ScopeInfo(
            path=path_of(scope_text(scope)),
            record_count=len(records),
            categories=sorted({each for record in records for each in record.categories}),
            oldest_record=min(times, default=None),
            newest_record=max(times, default=None),
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes right below a scope, in order."""
        top = scope_text(parent)
        own = self._memory.guard.matching(Filter(source_name=SOURCE))
        texts = self._store.values(f"metadata.{SCOPE}", own, prefix=top)
        children = {top + str(text).removeprefix(top).split("/", 1)[0] for text in texts if str(text) != top}
        others = Filter(source_name=differs_from(SOURCE))
        if top == "/" and self._store.recent(1, self._memory.guard.matching(others)):
            children.add(OTHERS)
        return sorted(children)

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the number of records of each category."""
        records = (record_from(item) for item in self._scan(below(scope_prefix)))
        return dict(Counter(category for record in records for category in record.categories))

    def _items(self, record_ids: Sequence[str], where: Filter) -> list[MemoryItem]:
        """Return the items of records that match a filter; an item that others wrote has its own id."""
        reach, now = self._memory.guard.matching(where), self._store.setup.clock()
        own = [item_id(each, self._memory.guard.new_scope()) for each in record_ids]
        found = [item for item in self._store.get([*own, *record_ids]) if reach.admits(item, now)]
        return [item for item in found if item.id in own or not is_own(item)]

    def _scan(self, where: Filter) -> Iterator[MemoryItem]:
        yield from self._store.scan(self._memory.guard.matching(where))

    asave, asearch, adelete = in_thread(save), in_thread(search), in_thread(delete)
