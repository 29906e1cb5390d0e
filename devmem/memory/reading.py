"""Reading a memory, or the part of it that a scope reaches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import Final, Literal, Unpack

from devmem.collections import Filter, Order
from devmem.memory.boundary import Boundary, ScopeParts, in_scope
from devmem.memory.filters import Values, make_filter
from devmem.memory.records import MemoryRecord, SearchHit, record_of, search_hit_of
from devmem.memory.times import When, seconds_of
from devmem.model.caller import Caller
from devmem.model.items import MemoryItem
from devmem.recall import MergePolicy, merge, with_related
from devmem.stores import MemoryBase, MemoryQuery
from devmem.stores.twins import async_twin
from devmem.transfer import every_item

_AT_ONCE: Final = 100


class MemoryReader:
    """The methods of a memory that change nothing."""

    def __init__(self, store: MemoryBase, boundary: Boundary) -> None:
        self.store = store
        """The store itself, for what only memories of this type can do; it knows no scope."""
        self._boundary = boundary
        self._clock = store.setup.clock

    def search(
        self,
        query: str,
        *,
        limit: int = 5,
        where: Filter | None = None,
        metadata: Values | None = None,
        after: When | None = None,
        before: When | None = None,
        min_similarity: float = -1.0,
        min_relevance: float | None = None,
        asked_at: When | None = None,
        **scope: Unpack[ScopeParts],
    ) -> list[SearchHit]:
        """Return what answers a query, best first.

        Args:
            query: a question or words.
            limit: maximum number of hits.
            where: a filter for what the other arguments cannot say.
            metadata: values that the hits' metadata have.
            after: hits happened then or later.
            before: hits happened before then.
            min_similarity: least cosine similarity, from -1 to 1; what was found by words alone has none and passes.
            min_relevance: least score, for questions that nothing answers; None is that of the store's configuration.
            asked_at: what "last week" in the query is counted from; None is now.
            scope: whose items are searched: user, agent, session, conversation.

        Raises:
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        matching = self._boundary.matching(scope, make_filter(where, metadata=metadata, after=after, before=before))
        asked = MemoryQuery(
            text=query,
            top_k=limit,
            similarity_threshold=min_similarity,
            min_relevance=min_relevance,
            where=matching,
            caller=Caller.of(matching.scope),
            asked_at=None if asked_at is None else seconds_of(asked_at),
        )
        found = with_related(self.store.search(asked))
        return [search_hit_of(hit) for hit in found if in_scope(hit.item, matching)]

    def context(
        self,
        query: str,
        *,
        limit: int = 5,
        token_budget: int | None = 2000,
        language: Literal["en", "zh"] = "en",
        where: Filter | None = None,
        exclude: Collection[str] = (),
        **scope: Unpack[ScopeParts],
    ) -> str:
        """Return what answers a query as one text for a prompt; empty when nothing does.

        It is the block that agents of a workflow are shown: stored text is quoted so that none of it can close or forge
        the block.

        Args:
            query: a question or words.
            limit: maximum number of hits.
            token_budget: maximum size of the block, in estimated tokens; None is no limit.
            language: of the lines around the stored texts.
            where: a filter for what the scope cannot say.
            exclude: ids of what the prompt has already; others take their place.
            scope: whose items are searched: user, agent, session, conversation.

        Raises:
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        found = self.search(query, limit=limit + len(exclude), where=where, **scope)
        # A memory in a file is called by its path, which no model needs to know.
        name = PurePath(self.store.name).stem if "/" in self.store.name or "\\" in self.store.name else self.store.name
        hits = [replace(one.hit, store=name) for one in found if one.id not in exclude][:limit]
        return merge([hits], MergePolicy(token_budget=token_budget, language=language)).formatted_text

    def get(self, id: str) -> MemoryRecord | None:  # noqa: A002 - what databases call it
        """Return the record of an id; None when there is none within reach."""
        item = self._item(id)
        return None if item is None else record_of(item)

    def _item(self, item_id: str) -> MemoryItem | None:
        reach, now = self._boundary.filter(), self._clock()
        found = (item for item in self.store.get([item_id]) if item.id == item_id)
        return next((item for item in found if reach.admits(item, now)), None)

    def recent(
        self,
        limit: int = 10,
        *,
        where: Filter | None = None,
        order: Order = Order.STORED,
        offset: int = 0,
        **scope: Unpack[ScopeParts],
    ) -> list[MemoryRecord]:
        """Return what is last in an order, the last first, after passing over `offset` records."""
        matching = self._boundary.matching(scope, where)
        found = self.store.recent(limit, matching, order=order, offset=offset)
        return [record_of(item) for item in found if in_scope(item, matching)]

    def matching(self, where: Filter | None = None, **scope: Unpack[ScopeParts]) -> Filter:
        """Return the filter of a call with these arguments, for code that reads `store` itself.

        Raises:
            ScopeError: the scope is out of reach.
        """
        return self._boundary.matching(scope, where)

    def count(self, *, where: Filter | None = None, **scope: Unpack[ScopeParts]) -> int:
        """Return the number of records."""
        return self.store.count_memories(self._boundary.matching(scope, where))

    def __len__(self) -> int:
        """Return the number of all records within reach, whomever they are bound to."""
        return self.store.count_memories(self._boundary.filter())

    def __iter__(self) -> Iterator[MemoryRecord]:
        """Go through the records, oldest first; as in a search, only what is bound to nobody where no user is named."""
        matching = self._boundary.matching({})
        return (record_of(item) for item in every_item(self.store, matching) if in_scope(item, matching))

    async def __aiter__(self) -> AsyncIterator[MemoryRecord]:
        records = iter(self)
        while some := await asyncio.to_thread(lambda: list(islice(records, _AT_ONCE))):
            for record in some:
                yield record

    def __contains__(self, id: object) -> bool:  # noqa: A002 - what databases call it
        return isinstance(id, str) and self._item(id) is not None

    asearch = async_twin(search)
    acontext = async_twin(context)
    aget = async_twin(get)
    arecent = async_twin(recent)
    acount = async_twin(count)
