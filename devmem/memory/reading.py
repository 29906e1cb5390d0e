"""Reading a memory, or the part of it that a scope reaches."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, Unpack, overload

import numpy as np

from devmem.errors import EmbeddingError, EmbeddingMismatchError, ItemNotFoundError
from devmem.memory.contents import Numbers
from devmem.memory.scope import (
    ScopeGuard,
    ScopeParts,
    Values,
    Where,
    checked_name,
    checked_number,
    in_scope,
    make_filter,
    split_scope,
)
from devmem.memory.statistics import value_counts
from devmem.memory.tables import Hits, Items
from devmem.model.caller import Caller, Stage, current_actor
from devmem.model.conditions import Order, Scalar
from devmem.model.filters import Filter
from devmem.model.items import LEAST_TRUST, MemoryItem
from devmem.model.results import Hit, MemoryRetrievalResult
from devmem.model.times import When
from devmem.model.twins import as_async, in_thread
from devmem.models.given_vectors import checked_vector
from devmem.search.merging import MergePolicy, PromptTexts, merge
from devmem.stores.abilities import every_item
from devmem.stores.archiving import archived_items
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.memory import MemoryBase, MemoryQuery
from devmem.stores.query_embedding import QueryEmbedding
from devmem.text.moments import asker_time

_LOG: Final = logging.getLogger(__name__)
BATCH_SIZE: Final = 100
"""Number of records that `async for` reads at once."""
ValueCounts: TypeAlias = list[tuple[Scalar | None, int]]
"""Values, each with a number of records; None stands for no value."""
_WIDEN: Final = 4
"""Factor by which a search is widened until enough of its hits are new to a prompt."""


class SearchOptions(ScopeParts, total=False):
    """Options of `Memory.search`: conditions on the hits."""

    where: Where | None
    """A filter beside the other options."""
    metadata: Values | None
    """Values that the hits' metadata have."""
    after: When | None
    """Hits happened then or later."""
    before: When | None
    """Hits happened before then."""
    min_similarity: float
    """Least cosine similarity, from -1 to 1, by default -1; what was found by words alone has none and passes."""
    min_relevance: float | None
    """Least score, for questions that nothing answers; None is that of the store's configuration."""
    collapse: bool | None
    """Whether of hits that say the same on the same day only the best is returned, with `same_as` naming the others;
    None is as the store's configuration says."""
    asked_at: When | None
    """Time from which "last week" in the query counts; None is now. Days are those of its zone, where it names one."""


QUARANTINED: Final = Filter(none_of=(Filter(min_trust=LEAST_TRUST),))


class MemoryReader:
    """The methods of a memory that change nothing; a memory and its snapshots share them."""

    def __init__(self, store: MemoryBase, guard: ScopeGuard) -> None:
        if isinstance(store, str | os.PathLike | dict):
            raise TypeError(f"a `Memory` wraps an opened store; open one by its place: devmem.open({store!r:.60})")
        self.store = store
        """The store itself, for operations that only memories of this type have; it knows no scope."""
        self.guard = guard
        self._clock = store.setup.clock
        self._searched = self._has_warned = False

    def search(
        self,
        query: str = "",
        *,
        limit: int = 5,
        offset: int = 0,
        vector: Numbers | None = None,
        like: str | None = None,
        **options: Unpack[SearchOptions],
    ) -> Hits:
        """Return the hits for a query, best first: a list whose `left_out` counts the items of users it left out.

        Args:
            query: a question or words; may be blank beside `vector` or `like`.
            limit: maximum number of hits.
            offset: number of the best hits to pass over.
            vector: the query's vector, of the model that the memory was opened with, shape (dimension,).
            like: id of a record instead of the query: what is similar to it is found, and not the record itself.
            options: what the hits have to be, and whose; see `SearchOptions`.

        Raises:
            TypeError: the query is not text, or another argument is of another type.
            ItemNotFoundError: no record that is visible here has the id `like`.
            EmbeddingError: a vector is given, and the memory has no model.
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        scope, said = split_scope(options, SearchOptions)
        where = make_filter(*(said.get(name) for name in ("where", "metadata", "after", "before")))
        matching, asked_at = self.guard.matching(where, **scope), said.get("asked_at")
        limit, offset = checked_number("limit", limit), checked_number("offset", offset)
        embedding = self._embedding_of(_checked_text(query), vector, like)
        asked = MemoryQuery(
            text=embedding.text,
            embedding=embedding,
            # The example itself is found too.
            limit=checked_number("limit", limit + offset + (like is not None)),
            similarity_threshold=said.get("min_similarity", -1.0),
            min_relevance=said.get("min_relevance"),
            where=matching,
            caller=Caller.of(matching.scope),
            asked_at=None if asked_at is None else asker_time(asked_at),
            collapse=said.get("collapse"),
        )
        return self._hits(asked, slice(offset, offset + limit), like)

    def _embedding_of(self, query: str, vector: Numbers | None, like: str | None) -> QueryEmbedding:
        """Return the text and the vector to search with."""
        if like is not None:
            if query.strip() or vector is not None:
                raise ValueError("`like` takes the place of a query and of its vector")
            if (item := self._item(like)) is None:
                raise ItemNotFoundError(like)
            has_model = isinstance(self.store, CollectionMemory) and self.store.embedder is not None
            return QueryEmbedding(item.text, given=item.embedding if has_model else None, focus=False)
        if vector is None:
            return QueryEmbedding(query)
        if not isinstance(self.store, CollectionMemory):
            raise EmbeddingError(f"a store of type {self.store.setup.store_type!r} takes no vectors of its callers")
        given = checked_vector("vector", vector)
        return QueryEmbedding(query, given=(given / np.linalg.norm(given.astype(np.float64))).astype(np.float32))

    def _hits(self, asked: MemoryQuery, shown: slice, like: str | None) -> Hits:
        matching = asked.where
        try:
            report = self.store.search(asked)
        except EmbeddingMismatchError as error:
            if asked.embedding.given is None or not isinstance(self.store, CollectionMemory):
                raise
            wanted, given = self.store.info().dimension, len(asked.embedding.given)
            raise ValueError(f"`vector` has {given} numbers; the vectors of this memory have {wanted}") from error
        hits = [hit for hit in report.hits if in_scope(hit.item, matching) and hit.item.id != like][shown]
        if self.guard.is_bound or "user" not in matching.unbound:
            return Hits(hits)
        everybody = replace(matching, unbound=tuple(part for part in matching.unbound if part != "user"))
        found = Hits(hits, left_out=lambda: self.store.count(everybody) - self.store.count(matching))
        # It is said once; as counting takes time, only the first and empty answers are checked.
        if not self._has_warned and not (self._searched and hits) and found.left_out > 0:
            self._has_warned = True
            _LOG.warning(
                "memory %r: %d item(s) that belong to users were not searched, as no user was named; user=ID searches "
                "those of a user, user=devmem.ANY everybody's.", self.store.name, found.left_out,
            )  # fmt: skip
        self._searched = True
        return found

    def context(
        self,
        query: str,
        *,
        limit: int = 5,
        token_budget: int | None = 2000,
        language: Literal["en", "zh"] = "en",
        where: Where | None = None,
        exclude: Collection[str] = (),
        shown: Collection[str] = (),
        relevance: bool = True,
        asked_at: When | None = None,
        **scope: Unpack[ScopeParts],
    ) -> str:
        """Return the hits for a query as one text for a prompt; empty where nothing relevant is stored.

        It is the block that agents of a workflow are shown, in order of time: stored text is quoted so that none of it
        can close or forge the block.

        Args:
            query: a question or words.
            limit: maximum number of hits.
            token_budget: maximum size of the block, in estimated tokens; None is no limit.
            language: of the lines around the stored texts.
            where: a filter beside the scope.
            exclude: ids of the records that the prompt has already; others take their place.
            shown: texts that the prompt has already, beside the query; what they contain word for word is left out.
            relevance: whether a query that nothing stored has to do with, such as "ok", returns nothing.
            asked_at: time from which "last week" in the query counts, with the asker's zone; None is now.
            scope: whose items are searched: user, agent, session, conversation.

        Raises:
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        limit, began = checked_number("limit", limit), time.perf_counter()
        matching = self.guard.matching(where, **scope)
        asked = MemoryQuery(
            text=_checked_text(query),
            limit=limit,
            where=matching,
            caller=Caller.of(matching.scope),
            asked_at=None if asked_at is None else asker_time(asked_at),
            only_relevant=relevance,
        )
        found = self._not_shown(asked, exclude, PromptTexts([query, *shown]))
        # All lines are of one memory, whose name tells a model nothing.
        hits = [replace(one, store="") for one in found]
        result = merge([hits], MergePolicy(token_budget=token_budget, language=language))
        host = current_actor().name or "devmem"
        record_recall(self, query, result, host=host, began=began, budget=token_budget, **scope)
        return result.formatted_text

    def _not_shown(self, asked: MemoryQuery, exclude: Collection[str], prompt: PromptTexts) -> Sequence[Hit]:
        """Return the best hits that a prompt does not have yet; the search is widened while they are too few."""
        wanted = asked.limit + len(exclude)
        while True:
            found = self._hits(replace(asked, limit=wanted), slice(wanted), None)
            new = [hit for hit in found if hit.id not in exclude and not prompt.hold(hit.item)]
            if len(new) >= asked.limit or len(found) < wanted:
                return new[: asked.limit]
            wanted *= _WIDEN

    # A text is an iterable of texts too; the first overload that fits counts.
    @overload
    def get(self, id: str, /, *, archived: bool = False) -> MemoryItem | None: ...  # type: ignore[overload-overlap]

    @overload
    def get(self, id: Iterable[str], /) -> Items: ...

    def get(
        self,
        id: str | Iterable[str],  # noqa: A002 - what databases call it
        /,
        *,
        archived: bool = False,
    ) -> MemoryItem | Items | None:
        """Return the item of an id, None where none is visible here; of several ids those that are, in their order.

        With `archived`, the item may also be in the archive.
        """
        if isinstance(id, str):
            return self._item(id, archived=archived)
        wanted = [checked_name("id", one) for one in dict.fromkeys(id)]
        reach, now = self.guard.filter(), self._clock()
        found = {item.id: item for item in self.store.get(wanted) if reach.admits(item, now)} if wanted else {}
        return Items(found[one] for one in wanted if one in found)

    def _item(self, item_id: str, *, archived: bool = False) -> MemoryItem | None:
        if not isinstance(item_id, str):
            raise TypeError(f"an id is text, not {item_id!r:.60}; several ids are one call each")
        reach, now = self.guard.filter(), self._clock()
        found = [item for item in self.store.get([item_id]) if item.id == item_id and reach.admits(item, now)]
        if archived and not found:
            found = [item for item in archived_items(self.store, [item_id]) if reach.admits(item, now)]
        return found[0] if found else None

    def list(
        self,
        limit: int = 10,
        *,
        where: Where | None = None,
        quarantined: bool | None = None,
        order: Order = Order.STORED,
        offset: int = 0,
        **scope: Unpack[ScopeParts],
    ) -> Items:
        """Return the last items of an order, the last one first.

        Args:
            limit: maximum number of items.
            where: restricts them.
            quarantined: only those in quarantine, whose `quarantine_reason` says why, or only others; None is both.
            order: by the time of storing, or of the event.
            offset: number of items to pass over.
            scope: whose items: user, agent, session, conversation.
        """
        wanted = make_filter(where)
        if quarantined is not None:
            wanted &= QUARANTINED if quarantined else Filter(min_trust=LEAST_TRUST)
        matching = self.guard.matching(wanted, **scope)
        limit, offset = checked_number("limit", limit), checked_number("offset", offset)
        found = self.store.recent(limit, matching, order=order, offset=offset)
        return Items(item for item in found if in_scope(item, matching))

    def scan(
        self, *, where: Where | None = None, order: Order = Order.STORED, **scope: Unpack[ScopeParts]
    ) -> Iterator[MemoryItem]:
        """Yield every record in an order, oldest first, reading some at a time."""
        matching = self.guard.matching(where, **scope)
        return (item for item in every_item(self.store, matching, order) if in_scope(item, matching))

    async def ascan(
        self, *, where: Where | None = None, order: Order = Order.STORED, **scope: Unpack[ScopeParts]
    ) -> AsyncIterator[MemoryItem]:
        """Yield what `scan` yields without blocking the event loop."""
        records = self.scan(where=where, order=order, **scope)
        while some := await in_thread(lambda: list(islice(records, BATCH_SIZE))):
            for record in some:
                yield record

    @overload
    def count(self, *, by: None = None, where: Where | None = None, **scope: Unpack[ScopeParts]) -> int: ...

    @overload
    def count(self, *, by: str, where: Where | None = None, **scope: Unpack[ScopeParts]) -> ValueCounts: ...

    def count(
        self, *, by: str | None = None, where: Where | None = None, **scope: Unpack[ScopeParts]
    ) -> int | ValueCounts:
        """Return the number of records, or of those with each value of a key.

        Args:
            by: a part of the scope, `source_kind`, `source_name` or `metadata.KEY`: return pairs of a value and the
                number of records that have it, the most frequent first. A list counts with each of its elements, None
                stands for records without a value.
            where: restricts the records.
            scope: whose records: user, agent, session, conversation.

        Raises:
            FilterError: records have no such key.
        """
        matching = self.guard.matching(where, **scope)
        if by is None:
            return self.store.count(matching)
        return value_counts(self.store, by, matching)

    def __len__(self) -> int:
        """Return the number of all items within reach, whoever they belong to."""
        return self.store.count(self.guard.filter())

    def __iter__(self) -> Iterator[MemoryItem]:
        """Iterate over the records, oldest first; as in a search, without a user only unscoped ones."""
        return self.scan()

    def __aiter__(self) -> AsyncIterator[MemoryItem]:
        return self.ascan()

    def __contains__(self, id: object) -> bool:  # noqa: A002 - what databases call it
        return isinstance(id, str) and self._item(id) is not None

    @overload
    async def aget(self, id: str, /, *, archived: bool = False) -> MemoryItem | None: ...  # type: ignore[overload-overlap]

    @overload
    async def aget(self, id: Iterable[str], /) -> Items: ...

    async def aget(self, *asked: Any, **options: Any) -> MemoryItem | Items | None:
        """Do what `get` does without blocking the event loop."""
        return await in_thread(lambda: self.get(*asked, **options))

    asearch = as_async(search)
    acontext = as_async(context)
    alist = as_async(list)  # noqa: A003 - the method

    @overload
    async def acount(self, *, by: None = None, where: Where | None = None, **scope: Unpack[ScopeParts]) -> int: ...

    @overload
    async def acount(self, *, by: str, where: Where | None = None, **scope: Unpack[ScopeParts]) -> ValueCounts: ...

    async def acount(self, **asked: Any) -> int | ValueCounts:
        """Do what `count` does without blocking the event loop."""
        return await in_thread(lambda: self.count(**asked))


def _checked_text(query: object) -> str:
    if not isinstance(query, str):
        raise TypeError(f"`query` is text, not {query!r:.60}")
    return query


def record_recall(
    memory: MemoryReader,
    query: str,
    shown: Sequence[Hit] | MemoryRetrievalResult,
    *,
    host: str,
    began: float,
    stage: Stage = Stage.GEN,
    budget: int | None = None,
    **scope: Unpack[ScopeParts],
) -> None:
    """Record what the agent of a host was shown, where the workflow of the memory has `record_recalls`.

    `Memory.context` records what it returns by itself. A log that cannot be written costs the caller nothing.

    Args:
        memory: the memory that was searched.
        query: the text that was searched for; empty where it was a vector.
        shown: the hits that the agent was given, in their order, or a block of a `MemoryManager`.
        host: the program, such as `langgraph`; it is named where the handle has no agent.
        began: `time.perf_counter()` at the beginning of the search.
        stage: the step of the agent's execution.
        budget: maximum size of the block in estimated tokens; None is no limit.
        scope: whose items were searched.
    """
    if (recalls := memory.store.setup.recalls) is None:
        return
    seconds = time.perf_counter() - began
    asked = memory.guard.matching(**scope).scope
    recalls.record_for_host(
        memory.store.name, query, shown, host=host, scope=asked, stage=stage, seconds=seconds, budget=budget
    )


class MemorySnapshot(MemoryReader):
    """A memory as it was at a time, read only.

    Closing it, or leaving its `with` block, releases its indexes; the memory itself stays open.
    """

    def close(self) -> None:
        """Release what it holds; closing twice is allowed."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
