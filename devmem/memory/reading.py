"""Reading a memory, or the part of it that a scope reaches."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from types import TracebackType
from typing import Final, Generic, Literal, Self, TypeVar, Unpack
from uuid import uuid4

from devmem.errors import ScopeError
from devmem.memory.records import (
    MemoryRecord,
    RecordDifference,
    RecordVersion,
    SearchHit,
    When,
    difference_of,
    record_of,
    search_hit_of,
    seconds_of,
    version_of,
)
from devmem.memory.scope import Boundary, ScopeParts, Values, in_scope, make_filter
from devmem.model.caller import Caller
from devmem.model.items import MemoryItem
from devmem.model.versions import RunInfo
from devmem.search.merging import MergePolicy, merge, with_related
from devmem.search.query import Filter, Order
from devmem.stores.abilities import as_of, versions_of
from devmem.stores.memory import MemoryBase, MemoryQuery, async_twin
from devmem.stores.runs import StoreRun
from devmem.transfer.filling import every_item

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


class EarlierMemory(MemoryReader):
    """A memory as it was at a time, with the methods of a memory that change nothing.

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


M = TypeVar("M")


class MemoryRun(Generic[M]):
    """A pending run of a memory; its `with` block commits it at the end, and discards it after an error."""

    def __init__(self, memory: M, run: StoreRun) -> None:
        self.memory = memory
        """The memory as the run sees and changes it."""
        self._run = run

    @property
    def id(self) -> str:
        """Id of the run."""
        return self._run.run

    def commit(self) -> None:
        """Show everybody what the run wrote.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed, and the run stays pending.
        """
        self._run.commit()

    def discard(self) -> None:
        """Drop what the run wrote; what it had replaced or forgotten is there as before."""
        self._run.discard()

    def close(self) -> None:
        """Release what the run holds; it stays pending."""
        self._run.close()

    def __enter__(self) -> M:
        return self.memory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.discard()

    async def __aenter__(self) -> M:
        return self.memory

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


class VersionedMemory(MemoryReader):
    """The methods of a memory that are about its versions and its runs."""

    @abstractmethod
    def _on(self, store: MemoryBase) -> Self:
        """Return a handle of the same reach on another store."""

    def history(self, id: str) -> list[RecordVersion]:  # noqa: A002 - what databases call it
        """Return the versions of a record that are within reach, oldest first; the current one has no `until`.

        Versions are kept as long as the store's `history` says. What was forgotten with `forget` leaves none.

        Raises:
            NoVersionsError: the store keeps no versions.
        """
        reach = self._boundary.filter()
        found = versions_of(self.store).history(id)
        return [version_of(version) for version in found if in_scope(version.item, reach)]

    def as_of(self, when: When) -> EarlierMemory:
        """Return the memory as it was at a time, to be searched and read; nothing can be written to it.

        The first search makes an index of its own, which `close` releases.

        Raises:
            NoVersionsError: the store keeps no versions.
            ValueError: `when` is no point in time.
        """
        return EarlierMemory(as_of(self.store, seconds_of(when)), self._boundary)

    def run(self, id: str | None = None, *, actor: str | None = None) -> MemoryRun[Self]:  # noqa: A002
        """Return a run, for a `with` block: what is written in it is seen by others from its end on, or not at all.

        ```python
        with memory.run("import of june") as pending:
            pending.add("Ann moved the launch to June 2nd.")
        ```

        An error in the block discards the run. A run whose process dies stays pending: nobody sees what it wrote, and
        it can be taken up by its id, or committed or discarded by `commit` and `discard`.

        Args:
            id: of a new run, or of one that is pending; None makes a new one.
            actor: who makes the changes, for the history.

        Raises:
            NoVersionsError: the store keeps no versions.
            RunStateError: the run has ended.
        """
        run = StoreRun(id or uuid4().hex, {self.store.name: self.store}, decisions=None, actor=actor)
        return MemoryRun(self._on(run.stores[self.store.name]), run)

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first; those whose process died are `pending`."""
        return versions_of(self.store).runs(limit)

    def commit(self, run: str) -> RunInfo:
        """Commit a pending run by its id; raises what `MemoryRun.commit` raises, and `RunStateError`."""
        return versions_of(self._whole().store).commit(run)

    def discard(self, run: str) -> RunInfo:
        """Discard a pending run by its id; raise `RunStateError` when it is not pending."""
        return versions_of(self._whole().store).discard(run)

    def revert(self, run: str) -> RunInfo:
        """Undo a committed run by changes that follow it, and return the run that they make.

        Raises:
            RunConflictError: later versions build on what it wrote; the error names them, and nothing was changed.
            RunStateError: the run is not committed, or what it replaced is not kept any more.
            ScopeError: this handle does not reach the whole memory.
        """
        return versions_of(self._whole().store).revert(run)

    def diff(
        self, before: When | None = None, after: When | None = None, *, run: str | None = None
    ) -> list[RecordDifference]:
        """Return the records within reach that differ between two times, or that a run changed.

        Args:
            before: the earlier time.
            after: the later time; None is now.
            run: in the place of the times: a run that is pending or committed.

        Raises:
            ValueError: neither a time nor a run is given, or both.
        """
        if (before is None) == (run is None):
            raise ValueError("give the time before, or the run")
        versions, reach = versions_of(self.store), self._boundary.filter()
        if run is not None:
            found = versions.diff(run)
        else:
            found = versions.diff(seconds_of(before or 0.0), None if after is None else seconds_of(after))
        return [
            difference_of(each)
            for each in found
            if all(item is None or in_scope(item, reach) for item in (each.before, each.after))
        ]

    def _whole(self) -> Self:
        """Return this handle if it reaches the whole memory, as a run may."""
        if self._boundary.is_sealed:
            raise ScopeError(f"this handle reaches {self._boundary.describe()}; a run may reach further")
        return self

    ahistory = async_twin(history)
    aruns = async_twin(runs)
    acommit = async_twin(commit)
    adiscard = async_twin(discard)
    arevert = async_twin(revert)
    adiff = async_twin(diff)
