"""The versions and runs of a memory."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self
from uuid import uuid4

from devmem.errors import ScopeError
from devmem.memory.boundary import in_scope
from devmem.memory.earlier import EarlierMemory
from devmem.memory.reading import MemoryReader
from devmem.memory.records import RecordDifference, RecordVersion, difference_of, version_of
from devmem.memory.runs import MemoryRun
from devmem.memory.times import When, seconds_of
from devmem.model.versions import RunInfo
from devmem.stores import MemoryBase
from devmem.stores.runs import StoreRun
from devmem.stores.twins import async_twin
from devmem.stores.versioned import as_of, versions_of


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
