"""Reading a memory, or the part of it that a scope reaches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from types import TracebackType
from typing import Final, Literal, Self, Unpack

from devmem.memory.records import Hits, MemoryRecord, Records, SearchHit, When, seconds_of
from devmem.memory.scope import ScopeGuard, ScopeParts, Values, Where, checked_number, in_scope, make_filter
from devmem.model.caller import Caller
from devmem.model.filters import Filter, Order
from devmem.model.items import MemoryItem
from devmem.model.twins import as_async
from devmem.search.merging import MergePolicy, merge, with_related
from devmem.stores.abilities import every_item
from devmem.stores.memory import MemoryBase, MemoryQuery

_LOG: Final = logging.getLogger(__name__)
BATCH_SIZE: Final = 100
"""Number of records that `async for` reads at once."""
_WIDEN: Final = 4
"""Factor by which a search is widened until enough of its hits are new to a prompt."""


class MemoryReader:
    """The methods of a memory that change nothing; a memory and its snapshots share them."""

    def __init__(self, store: MemoryBase, guard: ScopeGuard) -> None:
        self.store = store
        """The store itself, for operations that only memories of this type have; it knows no scope."""
        self._guard = guard
        self._clock = store.setup.clock
        self._searched = self._has_warned = False

    def search(
        self,
        query: str,
        *,
        limit: int = 5,
        where: Where | None = None,
        metadata: Values | None = None,
        after: When | None = None,
        before: When | None = None,
        min_similarity: float = -1.0,
        min_relevance: float | None = None,
        asked_at: When | None = None,
        **scope: Unpack[ScopeParts],
    ) -> Hits:
        """Return the hits for a query, best first: a list whose `left_out` counts the items of users it left out.

        Args:
            query: a question or words.
            limit: maximum number of hits.
            where: a filter beside the other arguments.
            metadata: values that the hits' metadata have.
            after: hits happened then or later.
            before: hits happened before then.
            min_similarity: least cosine similarity, from -1 to 1; what was found by words alone has none and passes.
            min_relevance: least score, for questions that nothing answers; None is that of the store's configuration.
            asked_at: time from which "last week" in the query counts; None is now.
            scope: whose items are searched: user, agent, session, conversation.

        Raises:
            TypeError: the query is not text, or another argument is of another type.
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        matching = self._guard.matching(scope, make_filter(where, metadata=metadata, after=after, before=before))
        asked = MemoryQuery(
            text=_checked_text(query),
            top_k=checked_number("limit", limit),
            similarity_threshold=min_similarity,
            min_relevance=min_relevance,
            where=matching,
            caller=Caller.of(matching.scope),
            asked_at=None if asked_at is None else seconds_of(asked_at),
        )
        return self._hits(asked)

    def _hits(self, asked: MemoryQuery) -> Hits:
        matching, found = asked.where, with_related(self.store.search(asked))
        hits = [SearchHit(hit.item, hit) for hit in found if in_scope(hit.item, matching)]
        if self._guard.is_bound or "user" not in matching.unbound:
            return Hits(hits)
        return self._warned(Hits(hits, left_out=lambda: self._count_of_users(matching)))

    def _count_of_users(self, where: Filter) -> int:
        """Return the number of items that a filter leaves out because they belong to users."""
        everybody = replace(where, unbound=tuple(part for part in where.unbound if part != "user"))
        return self.store.count_memories(everybody) - self.store.count_memories(where)

    def _warned(self, hits: Hits) -> Hits:
        """Warn once that items were left out; as counting takes time, only the first and empty answers are checked."""
        if not self._has_warned and not (self._searched and hits) and hits.left_out:
            self._has_warned = True
            _LOG.warning(
                "memory %r: %d item(s) that belong to users were not searched, as no user was named; user=ID searches "
                "those of a user, user=devmem.ANY everybody's.", self.store.name, hits.left_out,
            )  # fmt: skip
        self._searched = True
        return hits

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
        **scope: Unpack[ScopeParts],
    ) -> str:
        """Return the hits for a query as one text for a prompt; empty without any.

        It is the block that agents of a workflow are shown: stored text is quoted so that none of it can close or forge
        the block.

        Args:
            query: a question or words.
            limit: maximum number of hits.
            token_budget: maximum size of the block, in estimated tokens; None is no limit.
            language: of the lines around the stored texts.
            where: a filter beside the scope.
            exclude: ids of the records that the prompt has already; others take their place.
            shown: texts that the prompt has already, compared without regard to white space.
            scope: whose items are searched: user, agent, session, conversation.

        Raises:
            ScopeError: the scope is out of reach.
            CollectionError: the memory cannot be read.
        """
        limit = checked_number("limit", limit)
        found = self._not_shown(query, limit, exclude, shown, where, scope)
        # A memory in a file is named by its path, which no model needs to know.
        name = PurePath(self.store.name).stem if "/" in self.store.name or "\\" in self.store.name else self.store.name
        hits = [replace(one.hit, store=name) for one in found]
        return merge([hits], MergePolicy(token_budget=token_budget, language=language)).formatted_text

    def _not_shown(
        self,
        query: str,
        limit: int,
        exclude: Collection[str],
        shown: Collection[str],
        where: Where | None,
        scope: ScopeParts,
    ) -> list[SearchHit]:
        """Return the best hits that a prompt does not have yet; the search is widened while they are too few."""
        known = {" ".join(text.split()) for text in shown}
        asked = limit + len(exclude)
        while True:
            found = self.search(query, limit=asked, where=where, **scope)
            new = [hit for hit in found if hit.id not in exclude and " ".join(hit.text.split()) not in known]
            if len(new) >= limit or len(found) < asked:
                return new[:limit]
            asked *= _WIDEN

    def get(self, id: str) -> MemoryRecord | None:  # noqa: A002 - what databases call it
        """Return the record of an id; None where none is visible here."""
        item = self._item(id)
        return None if item is None else MemoryRecord(item)

    def _item(self, item_id: str) -> MemoryItem | None:
        if not isinstance(item_id, str):
            raise TypeError(f"an id is text, not {item_id!r:.60}; several ids are one call each")
        reach, now = self._guard.filter(), self._clock()
        found = (item for item in self.store.get([item_id]) if item.id == item_id)
        return next((item for item in found if reach.admits(item, now)), None)

    def recent(
        self,
        limit: int = 10,
        *,
        where: Where | None = None,
        order: Order = Order.STORED,
        offset: int = 0,
        **scope: Unpack[ScopeParts],
    ) -> Records:
        """Return the last records of an order, the last one first, after passing over `offset` records."""
        matching = self._guard.matching(scope, make_filter(where))
        limit, offset = checked_number("limit", limit), checked_number("offset", offset)
        found = self.store.recent(limit, matching, order=order, offset=offset)
        return Records(MemoryRecord(item) for item in found if in_scope(item, matching))

    def matching(self, where: Where | None = None, **scope: Unpack[ScopeParts]) -> Filter:
        """Return the filter of a call with these arguments, for code that reads `store` itself.

        Raises:
            ScopeError: the scope is out of reach.
        """
        return self._guard.matching(scope, make_filter(where))

    def count(self, *, where: Where | None = None, **scope: Unpack[ScopeParts]) -> int:
        """Return the number of records."""
        return self.store.count_memories(self._guard.matching(scope, make_filter(where)))

    def __len__(self) -> int:
        """Return the number of all records within reach, whoever they belong to."""
        return self.store.count_memories(self._guard.filter())

    def __iter__(self) -> Iterator[MemoryRecord]:
        """Iterate over the records, oldest first; as in a search, without a user only unscoped ones."""
        matching = self._guard.matching({})
        return (MemoryRecord(item) for item in every_item(self.store, matching) if in_scope(item, matching))

    async def __aiter__(self) -> AsyncIterator[MemoryRecord]:
        records = iter(self)
        while some := await asyncio.to_thread(lambda: list(islice(records, BATCH_SIZE))):
            for record in some:
                yield record

    def __contains__(self, id: object) -> bool:  # noqa: A002 - what databases call it
        return isinstance(id, str) and self._item(id) is not None

    asearch = as_async(search)
    acontext = as_async(context)
    aget = as_async(get)
    arecent = as_async(recent)
    acount = as_async(count)


def _checked_text(query: object) -> str:
    if not isinstance(query, str):
        raise TypeError(f"`query` is text, not {query!r:.60}")
    return query


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
