"""The protocol of a collection that keeps the versions of its items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from devmem.collections.protocol import Collection
from devmem.model.versions import ItemDifference, ItemVersion, RunInfo
from devmem.search.filters import Filter


@runtime_checkable
class VersionedCollection(Collection, Protocol):
    """A collection that keeps what an item was when it is replaced or deleted.

    `add` begins versions, `delete` and `clear` end them. What `trim` and expiry remove is gone at once, versions
    included: retention is there to free space.
    """

    def history(self, item_id: str) -> list[ItemVersion]:
        """Return the committed versions of an item, oldest first; empty when none is kept.

        The current version is the last one, without `ended`; a deleted item has none.
        """
        ...

    def as_of(self, time: float) -> Collection:
        """Return the collection as it was at a time (seconds since the epoch), as far as its versions are kept.

        What had expired by then is left out. It is read only: its writing methods raise `CollectionReadOnlyError`. The
        caller closes it; the collection stays open.
        """
        ...

    def run(self, run: str, *, actor: str | None = None) -> Collection:
        """Return the collection as a pending run sees and changes it.

        What is written to it is seen by this run alone, in every process, until it is committed. Of what others commit
        meanwhile it sees all but the items that it has changed itself. The caller closes it; the run stays pending.

        Args:
            run: id of the run, which begins with its first write, or is pending already.
            actor: the node, tool or user that makes the changes, for the history.

        Raises:
            RunStateError: the run has ended.
        """
        ...

    def runs(self, limit: int = 100) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`; one that was never pending is committed."""
        ...

    def find_run(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        ...

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a run did, or that build on what it wrote.

        A pending run cannot be committed then, nor a committed one reverted.

        Raises:
            RunStateError: the run has ended otherwise, or a version that it replaced is not kept any more.
        """
        ...

    def commit(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Make what a pending run wrote the current items, all or nothing; one that is committed stays so.

        Args:
            run: id of the run.
            then: is called within the transaction when nothing can be in its way any more; when it raises, nothing is
                committed. It may be called again where the transaction has to be repeated.

        Raises:
            RunConflictError: others changed the same items since; nothing was committed, and the run stays pending.
            RunStateError: the run was discarded or reverted, or has written nothing.
        """
        ...

    def discard(self, run: str) -> RunInfo:
        """Drop what a pending run wrote; one that is discarded stays so.

        Raises:
            RunStateError: the run was committed, or has written nothing.
        """
        ...

    def revert(self, run: str, *, then: Callable[[], object] | None = None) -> RunInfo:
        """Undo a committed run by changes that follow it, and return the run that they make: `revert of RUN`.

        What the run added is deleted, and what it replaced or deleted is the current version again, stored last.
        A run need not have been pending: what items name as their `scope.run` when they are written is of that run,
        and so is what is deleted while `acting_as` names it. `then` is called as `commit` calls its own.

        Raises:
            RunConflictError: later versions, or items that were derived, build on what the run wrote.
            RunStateError: the run is not committed, or a version that it replaced is not kept any more.
        """
        ...

    def diff(self, before: float | str, after: float | str | None = None) -> list[ItemDifference]:
        """Return the items that differ between two states, in the order of their ids.

        Args:
            before: a time (seconds since the epoch), or a run: the state that it left.
            after: likewise. None is the current state after a time; after a run it is what this run changed.

        Raises:
            RunStateError: there is no such run, or it was discarded.
        """
        ...

    def erase(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Delete the named or the matching items for good, with every version that they ever had.

        A version that matches is removed too where the item has changed since and does not match any more. A filter
        that admits everything erases everything. Return the number of deleted items.

        Raises:
            FilterError: there are neither ids nor a filter.
        """
        ...
