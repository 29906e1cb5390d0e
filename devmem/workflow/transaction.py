"""Runs of a workflow: transactions, which are committed at their end or dropped, and reverting one that is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from devmem.config.workflow import Workflow, written_stores
from devmem.errors import RunConflictError, RunFailedError
from devmem.model.versions import RunInfo
from devmem.storage.pending import STATE_FILE
from devmem.stores.abilities import keeps_versions
from devmem.stores.memory import MemoryBase
from devmem.stores.runs import StoreRun, recover_runs, revert_everywhere
from devmem.workflow.graph import RunResult

_LOG: Final = logging.getLogger(__name__)


def recover(stores: Mapping[str, MemoryBase], rescue_dir: Path | None) -> None:
    """Commit, or revert, the runs for which an earlier process had decided that when it died."""
    if (file := _decisions(rescue_dir)) is not None:
        recover_runs(file, stores)


def _decisions(rescue_dir: Path | None) -> Path | None:
    return None if rescue_dir is None else rescue_dir / STATE_FILE


def stores_of_runs(workflow: Workflow) -> list[str]:
    """Name the stores to which a run of the workflow belongs: those that its agents write.

    What the `conversation` block records is a log, which stays.
    """
    written = written_stores(workflow.memory, workflow.nodes)
    return [store.name for store in written if store.name not in workflow.recording_stores]


def commit_run(workflow: Workflow, stores: Mapping[str, MemoryBase], run: str, rescue_dir: Path | None) -> None:
    """Commit a pending run in all stores that it wrote to, or in none; raises what `StoreRun.commit` raises."""
    _taken_up(workflow, stores, run, rescue_dir).commit()


def discard_run(workflow: Workflow, stores: Mapping[str, MemoryBase], run: str, rescue_dir: Path | None) -> None:
    """Drop what a pending run wrote, in all stores; raise `RunStateError` when it is not pending."""
    _taken_up(workflow, stores, run, rescue_dir).discard()


def _taken_up(workflow: Workflow, stores: Mapping[str, MemoryBase], run: str, rescue_dir: Path | None) -> StoreRun:
    """Return a run whose process died."""
    recover(stores, rescue_dir)
    written = {name: stores[name] for name in stores_of_runs(workflow) if name in stores}
    written = {name: store for name, store in written.items() if keeps_versions(store)}
    return StoreRun(run, written, decisions=_decisions(rescue_dir), exists=True)


def revert_run(
    workflow: Workflow, stores: Mapping[str, MemoryBase], run: str, rescue_dir: Path | None
) -> dict[str, RunInfo]:
    """Undo a run of a workflow in all of its stores, or in none; return the runs that undo it, by store.

    Args:
        workflow: declares the stores; it need not be a transaction.
        stores: the stores that `stores_of_runs` names; those to which nothing was ever written may be left out.
        run: id of the run.
        rescue_dir: folder of the session's files; None keeps no decision, so that a crash between the commits of two
            stores may leave the run reverted in one of them.

    Raises:
        NoVersionsError: the run wrote to a store that keeps no versions; nothing was changed.
        RunConflictError: later versions in one of the stores build on what it wrote; nothing was changed.
        RunStateError: it wrote to none of the stores, or is not committed in one; nothing was changed.
    """
    recover(stores, rescue_dir)
    written = {name: stores[name] for name in stores_of_runs(workflow) if name in stores}
    return revert_everywhere(run, written, decisions=_decisions(rescue_dir))


def in_transaction(
    workflow: Workflow,
    stores: Mapping[str, MemoryBase],
    run: str,
    rescue_dir: Path | None,
    operation: Callable[[Mapping[str, MemoryBase]], RunResult],
) -> RunResult:
    """Run an operation on stores as a pending run sees and changes them, and commit it.

    Args:
        workflow: declares the stores.
        stores: the stores, by name.
        run: id of the run.
        rescue_dir: folder of the session's files; None keeps no decision, so that a crash between the commits of two
            stores may leave the run committed in one of them.
        operation: runs the workflow on the stores that it gets.

    Raises:
        RunFailedError: a store could not be written; what the run wrote was dropped.
        RunConflictError: others changed the same items meanwhile; what the run wrote was dropped.
    """
    names = [store.name for store in written_stores(workflow.memory, workflow.nodes) if store.name in stores]
    pending = StoreRun(run, {name: stores[name] for name in names}, decisions=_decisions(rescue_dir))
    try:
        result = operation({**stores, **pending.stores})
    except BaseException:
        _discard(pending)
        raise
    failures = [failure for node in result.nodes for failure in node.failures if failure.operation == "update"]
    if failures:
        _discard(pending)
        raise RunFailedError(run, [str(failure) for failure in failures])
    try:
        pending.commit()
    except RunConflictError:
        _discard(pending)
        raise
    return result


def _discard(pending: StoreRun) -> None:
    pending.discard()
    _LOG.warning("run %s is discarded: nothing that it wrote to %s is kept.", pending.run, ", ".join(pending.stores))
