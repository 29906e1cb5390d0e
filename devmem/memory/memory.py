"""A memory as agent developers use it: strings in, records out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self, Unpack, cast, overload

from devmem.errors import DevmemError
from devmem.memory.changes import (
    ChangeOptions,
    MatchingOptions,
    approved_item,
    consolidated,
    restored,
    update_item,
    update_matching,
)
from devmem.memory.contents import AddOptions, ConsolidateOptions, Content, OutcomeOptions
from devmem.memory.forgetting import Selected, forgotten
from devmem.memory.reading import MemoryReader, MemorySnapshot
from devmem.memory.repeats import remembered
from devmem.memory.runs import MemoryRun, RunsWithin
from devmem.memory.scope import (
    ScopeGuard,
    ScopeParts,
    Where,
    checked_name,
    checked_number,
    in_scope,
    make_filter,
    split_scope,
)
from devmem.memory.tables import History, Items
from devmem.model.caller import acting_as
from devmem.model.items import MemoryItem
from devmem.model.message import Message
from devmem.model.results import WriteOutcome
from devmem.model.times import When
from devmem.model.twins import as_async, in_thread
from devmem.model.versions import ItemDifference, RunInfo, with_replaced
from devmem.storage.tombstones import Tombstone
from devmem.stores.abilities import as_of, tombstones_of, versions_of
from devmem.stores.archiving import archived
from devmem.stores.consolidation import Consolidation
from devmem.stores.erasing import ForgetReceipt
from devmem.stores.memory import MemoryBase, Progress, observed, records_of
from devmem.stores.staleness import StaleItem, renew, stale_items
from devmem.text.display import number_of
from devmem.text.moments import parse_moment

_LOG: Final = logging.getLogger(__name__)
_SHOWN: Final = 10
"""Number of records that a notebook shows of a memory."""


class Memory(MemoryReader):
    """A store of remembered texts and messages, or the part of one that a scope reaches.

    Without `user`, a method means unscoped memories only; `user=devmem.ANY` means everybody's.
    It is safe to use from several threads, and a file by several processes; what is added is durable when the call
    returns. Each method that does I/O has an async twin: `aadd`, `asearch`, ...
    """

    def __init__(
        self, store: MemoryBase, *, guard: ScopeGuard | None = None, opening: Callable[..., Memory] | None = None
    ) -> None:
        """Wrap an opened store; `guard` limits the handle to a part of it, `opening` opens its place again."""
        super().__init__(store, guard or ScopeGuard())
        self._opening = opening
        self._runs = RunsWithin(store, self.guard)
        self._closed = False

    def scoped(self, **scope: Unpack[ScopeParts]) -> Memory:
        """Return a handle on the part of the memory that belongs to a user, an agent, a session or a conversation.

        Nothing that is done with it leaves this part: items outside are neither found nor listed, nor changed, nor
        forgotten. Its user is fixed; without one the handle reaches unscoped memories. `scoped()` is a handle on what
        calls without a scope mean here, for code that is given ids by others, such as tools of a model.

        Raises:
            ValueError: all parts that are named are None; is a variable not set?
            ScopeError: this handle does not reach so far.
        """
        if scope and all(value is None for value in scope.values()):
            raise ValueError("name the scope: user, agent, session or conversation (user=devmem.ANY means everyone)")
        return Memory(self.store, guard=self.guard.bound(scope), opening=self._opening)

    # A text is an iterable of texts too; the first overload that fits counts.
    @overload
    def add(self, content: str, **options: Unpack[OutcomeOptions]) -> str: ...  # type: ignore[overload-overlap]

    @overload
    def add(
        self, content: Message | Mapping[str, Any] | Iterable[Content], **options: Unpack[AddOptions]
    ) -> list[str]: ...

    def add(self, content: Content | Iterable[Content], **options: Unpack[OutcomeOptions]) -> str | list[str]:
        """Remember a text, a message, or several of them, all or none; return the id, for several those of all items.

        Args:
            content: a text, a message (`devmem.messages.Message`, or a dict with `role` and `content`), a dict with
                `text` and its own `id`, `key`, `if_version`, `metadata`, `time`, `expires_at`, `trust` or `embedding`,
                or several of these. For a text that its scope has already, time and metadata are added to its item. All
                messages are new, but one whose own id is stored; with `history` they are the conversation so far, of
                which what goes beyond the stored messages is new. What has no content is left out; a text may be blank
                where metadata or a vector stand for it.
            options: for a text its `id`, or the `key` of the fact that it states, such as `diet`, whose item it
                replaces in the same scope (`history` keeps the text before); `if_version`, the only version that it may
                replace; `embedding`, its vector (see `NamedOptions`). For all of it: `metadata`, `time`, `expires_at`,
                `trust`, `source`, `derived_from`, `fields`, `history`, and whom it belongs to: `user`, `agent`,
                `session`, `conversation` (see `AddOptions`).

        Raises:
            ValueError: a text is blank, or another argument is not what it should be.
            TypeError: something has none of these forms, or a `history` has a text.
            ScopeError, ItemNotFoundError: the scope, what has the id, or what it is `derived_from` is out of reach.
            EmbeddingError: the memory has no model, and a vector is given.
            NotStoredError: the store does not take it.
            VersionConflictError: another version than `if_version` is stored; nothing was written.
        """
        ids = [outcome.item_id or "" for outcome in self.add_outcomes(content, **options)]
        return ids[0] if isinstance(content, str) else ids

    def add_outcomes(
        self, content: Content | Iterable[Content], **options: Unpack[OutcomeOptions]
    ) -> list[WriteOutcome]:
        """Remember as `add` does; return for each text or message what became of it, in their order.

        An outcome has the `item_id` and the `status`, such as `duplicate` or `quarantined`, with its `reason`. The
        arguments and the errors are those of `add`.
        """
        return remembered(self.store, self.guard, self._clock(), content, options)

    @overload
    def update(
        self, id: str, text: str | None = None, *, if_version: str | None = None, **changes: Unpack[ChangeOptions]
    ) -> MemoryItem: ...

    @overload
    def update(self, *, where: Where, dry_run: bool = False, **changes: Unpack[MatchingOptions]) -> int: ...

    def update(
        self,
        id: str | None = None,  # noqa: A002 - what databases call it
        text: str | None = None,
        *,
        where: Where | None = None,
        if_version: str | None = None,
        dry_run: bool = False,
        **changes: Unpack[MatchingOptions],
    ) -> MemoryItem | int:
        """Change an item and return it, or every item that `where` admits and return how many are others now.

        What is not given stays unchanged, also where others change an item meanwhile. With `where`, 200 items are
        changed at a time: interrupted, it may be called again; within `run` all are changed, or none.

        Args:
            id: of the item.
            text: takes the place of the old text; a vector that was given with that goes with it.
            where: a filter, in the place of an id and a text.
            if_version: `version` of the item that was read; an item that was changed since is not changed.
            dry_run: with `where`: count the items that match.
            changes: `metadata` to set, `time`, `expires_at`, `fields`, `embedding` and `trust` (see `ChangeOptions`);
                with `where` also whose items: `user`, `agent`, `session`, `conversation`.

        Raises:
            ItemNotFoundError: no item with this id is visible here.
            ValueError: the text is blank, `where` admits everything, or another argument is not what it should be.
            VersionConflictError, NotStoredError: the item is another version than `if_version`, or cannot be changed.
            ScopeError: the scope is out of reach.
        """
        scope, said = split_scope(changes, MatchingOptions)
        options = cast("ChangeOptions", said)
        if (id is None) == (where is None):
            raise TypeError("name the item to change by its id, or several by `where`")
        with observed(self.store, "update_memory", record=id) as operation, acting_as(self.guard.parts.agent):
            if id is not None:
                item = update_item(self.store, lambda: self._item(id), id, text, options, if_version)
                operation.records(1, lambda: records_of([item]))
                return item
            if make_filter(where).everything() and not any(scope.values()):
                raise ValueError("say what to change: `where` admits everything")
            matching = self.guard.matching(where, **scope)
            if dry_run:
                return self.store.count(matching)
            changed = update_matching(self.store, matching, text, options)
            operation.records(changed, tuple)
            return changed

    def forget(
        self,
        *ids: str,
        dry_run: bool = False,
        verify: bool = False,
        vacuum: bool = False,
        tombstone: bool = False,
        **selected: Unpack[Selected],
    ) -> ForgetReceipt:
        """Forget what is named by id, by scope or by a filter; what is named in several ways must be all of them.

        What was derived from it, such as summaries, is forgotten too, and the earlier versions of all of it: `history`
        and `as_of` do not show them any more, and the bytes leave the files. With a text that is named by its id go its
        copies: the items of the same scope with the same text.

        Args:
            ids: of the items to forget.
            dry_run: return the receipt of what would be forgotten; change nothing.
            verify: search the files afterwards for what was forgotten, and name in the receipt what was reached.
            vacuum: verify, and rewrite the database even if nothing is found in it.
            tombstone: keep hashes of the texts, by which the memory takes none of them again from the same user, also
                within a longer text; `tombstones` lists them.
            selected: `where`, a filter for what the other arguments cannot say; `metadata`, values that the items
                have; `before`, when they happened; `matching`, a part of their text or metadata in any case; `source`,
                the document or other source that they came from; `run`, in which they were written; and whose they are:
                a `user`, an `agent`, a `session` or a `conversation` alone means all of it.

        Returns:
            The receipt, whose `items` is the number of items that are forgotten, or with `dry_run` would be.

        Raises:
            ValueError: nothing says what to forget; is a variable not set?
            ScopeError: the scope is out of reach.
            NoTombstonesError: the store keeps no tombstones; nothing was forgotten.
        """
        how = {"dry_run": dry_run, "verify": verify, "vacuum": vacuum, "tombstone": tombstone}
        return forgotten(self.store, self.guard, ids, selected, **how)

    def tombstones(self) -> list[Tombstone]:
        """Return what erasures with `tombstone=True` left, oldest first: ids, times and numbers, nothing of the texts.

        A scoped handle lists those of its user; raises what `remove_tombstones` raises of store and scope.
        """
        user, everybody = self.guard.whole_user("tombstones are kept by user")
        return tombstones_of(self.store).tombstones(user, everybody=everybody)

    def remove_tombstones(self, *ids: str, everything: bool = False) -> int:
        """Remove the tombstones of some erasures; return the number of texts that may be stored again.

        Args:
            ids: of the erasures, as `tombstones` lists them.
            everything: remove all that `tombstones` lists.

        Raises:
            ValueError: nothing says which; is a variable not set?
            NoTombstonesError: the store keeps none.
            ScopeError: the handle reaches less than all of a user.
        """
        if bool(ids) == everything:
            raise ValueError("give the ids of tombstones, or everything=True")
        user, everybody = self.guard.whole_user("tombstones are kept by user")
        return tombstones_of(self.store).remove_tombstones(ids or None, user, everybody=everybody)

    def stale(self) -> list[StaleItem]:
        """Return the records within reach that were derived from others which changed or are gone since.

        A record names these when it is added (`derived_from`). Every record is read.
        """
        reach = self.guard.filter()
        found = (each for each in stale_items(self.store) if in_scope(each.item, reach))
        return list(found)

    def renew(self, *ids: str) -> list[str]:
        """Summarize what is left of the sources of stale records once more; return the ids of the renewed ones.

        Without ids, all that are within reach; one without a source that is left stays so. Raises `ChatModelError`
        when the language model gave no answer; the records before it are renewed.
        """
        within = {each.item.id for each in self.stale()}
        return renew(self.store, within.intersection(ids) if ids else within)

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        **options: Unpack[ConsolidateOptions],
    ) -> Consolidation:
        """Merge near-duplicates within each scope in one run, which `revert` undoes; return what it did.

        Texts that differ in a number, a name, a negation or a word are none. What is left of each group tells of the
        others in its metadata. With `archive_before`, old records of low trust that no agent was ever shown go into
        the archive. Interrupted, the run is pending, and the next call with the same arguments continues it.

        Args:
            dry_run: change nothing.
            progress: is called with the number of records that were read.
            options: whose records, which metadata may differ, what gets a digest, and what is archived; see
                `ConsolidateOptions`.

        Raises:
            NoVersionsError: the store keeps no versions.
            RunConflictError: others changed the same records again and again; nothing was changed.
            ScopeError: the scope is out of reach.
        """
        return consolidated(self.store, self.guard, options, dry_run=dry_run, progress=progress)

    def archived(self) -> MemorySnapshot:
        """Return the archived records within reach, to be searched and read; raises what `as_of` raises of the store.

        The first search makes an index of all of them in memory, which `close` releases.
        """
        return MemorySnapshot(archived(self.store), self.guard)

    def restore(self, *ids: str) -> list[WriteOutcome]:
        """Bring archived records back, stored last, and return an outcome for each; raises what `archived` raises.

        One that is not archived within reach, or whose text a tombstone keeps out, is skipped; the outcome says why.
        """
        return restored(self.store, self.guard, [checked_name("id", one) for one in ids])

    def history(self, id: str) -> History:  # noqa: A002 - what databases call it
        """Return the versions of a record that are within reach, oldest first; the current one has no `until`.

        Versions are kept as long as the store's `history` says. What was forgotten with `forget` leaves none.
        Raises `NoVersionsError` where the store keeps none.
        """
        reach = self.guard.filter()
        found = versions_of(self.store).history(checked_name("id", id))
        return History(version for version in with_replaced(found) if in_scope(version.item, reach))

    def as_of(self, when: When) -> MemorySnapshot:
        """Return the memory as it was at a time, to be searched and read; nothing can be written to it.

        The first search makes its own index, which `close` releases.

        Raises:
            NoVersionsError: the store keeps no versions.
            ValueError: `when` is not a point in time.
        """
        return MemorySnapshot(as_of(self.store, parse_moment(when)), self.guard)

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
            ScopeError: the id is taken by a run of another scope.
        """
        run = self._runs.begin(id, actor)
        memory = type(self)(run.stores[self.store.name], guard=self.guard)
        return MemoryRun(memory, run, self._runs)

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first; those whose process died are `pending`.

        A scoped handle lists the runs of which every change is in its scope.
        """
        return self._runs.listed(checked_number("limit", limit))

    def commit(self, run: str) -> RunInfo:
        """Commit a pending run by its id; raises what `MemoryRun.commit` raises, and `RunStateError`."""
        return self._runs.collection_of(run).commit(run)

    def discard(self, run: str) -> RunInfo:
        """Discard a pending run by its id; raise `RunStateError` when it is not pending."""
        return self._runs.collection_of(run).discard(run)

    def revert(self, run: str) -> RunInfo:
        """Undo a committed run by changes that follow it, and return the run that they make.

        Raises:
            RunConflictError: later versions build on what it wrote; the error names them, and nothing was changed.
            RunStateError: the run is not committed, or what it replaced is not kept any more.
            ScopeError: no run of this id is within reach of this handle.
        """
        return self._runs.collection_of(run).revert(run)

    def diff(
        self, before: When | None = None, after: When | None = None, *, run: str | None = None
    ) -> list[ItemDifference]:
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
        if run is not None:
            return self._runs.changes_of(run)
        later = None if after is None else parse_moment(after)
        found = versions_of(self.store).diff(parse_moment(before or 0.0), later)
        return list(self._runs.within(found))

    def approve(self, id: str, *, reason: str = "") -> MemoryItem:  # noqa: A002 - what databases call it
        """Take a record out of quarantine and return it, under the id and with the trust that it was to have.

        Raises:
            ItemNotFoundError: no item with this id is visible here.
            ValueError: it is not in quarantine.
        """
        with acting_as(self.guard.parts.agent):
            return approved_item(self.store, self._item(id), id, reason)

    def close(self) -> None:
        """Finish what waits and release the files; a scoped handle leaves the memory open.

        What was added is durable already. Closing twice is allowed.
        """
        if not self.guard.is_bound and not self._closed:
            self._closed = True
            try:
                self.store.save()
            finally:
                self.store.close()
                if self.store.setup.recalls is not None:
                    self.store.setup.recalls.close()

    def __deepcopy__(self, _memo: object = None) -> Self:
        return self  # A copy of a handle is the same handle.

    __copy__ = __deepcopy__

    def __reduce__(self) -> tuple[Callable[[ScopeGuard], Memory], tuple[ScopeGuard]]:
        """Pickle a handle on the same place; raises `TypeError` where no other process can open it."""
        if self._opening is not None:
            return self._opening, (self.guard,)
        raise TypeError("this memory cannot be pickled: no other process can open it by its place alone")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except DevmemError:
            if error is None:
                raise
            # The error of the block says what went wrong first.
            _LOG.exception("memory %r could not be closed", self.store.name)

    def _repr_html_(self) -> str:
        newest = self.store.recent(_SHOWN, self.guard.filter())
        return Items(newest)._repr_html_()

    def __repr__(self) -> str:
        name = f"Memory {self.store.name!r}"
        reach = f" of {self.guard.describe()}" if self.guard.is_bound else ""
        if self._closed:
            return f"<{name}: closed>"
        try:
            count = len(self)
        except DevmemError as error:
            return f"<{name}{reach}: {type(error).__name__}>"
        return f"<{name}{reach}: {self.store.setup.store_type}, {number_of(count, 'item')}>"

    @overload
    async def aadd(self, content: str, **options: Unpack[OutcomeOptions]) -> str: ...  # type: ignore[overload-overlap]

    @overload
    async def aadd(
        self, content: Message | Mapping[str, Any] | Iterable[Content], **options: Unpack[AddOptions]
    ) -> list[str]: ...

    async def aadd(self, content: Content | Iterable[Content], **options: Any) -> str | list[str]:
        """Do what `add` does without blocking the event loop."""
        return await in_thread(lambda: self.add(content, **options))

    @overload
    async def aupdate(self, id: str, text: str | None = None, **changes: Any) -> MemoryItem: ...  # noqa: ANN401 - as `update`

    @overload
    async def aupdate(self, *, where: Where, **changes: Any) -> int: ...  # noqa: ANN401 - as `update`

    async def aupdate(self, *named: Any, **changes: Any) -> MemoryItem | int:
        """Do what `update` does without blocking the event loop."""
        return await in_thread(lambda: self.update(*named, **changes))

    aadd_outcomes = as_async(add_outcomes)
    aforget = as_async(forget)
    atombstones = as_async(tombstones)
    astale = as_async(stale)
    arenew = as_async(renew)
    aconsolidate = as_async(consolidate)
    arestore = as_async(restore)
    aremove_tombstones = as_async(remove_tombstones)
    ahistory = as_async(history)
    aruns = as_async(runs)
    acommit = as_async(commit)
    adiscard = as_async(discard)
    arevert = as_async(revert)
    adiff = as_async(diff)
    aclose = as_async(close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(self.__exit__, kind, error, trace)
