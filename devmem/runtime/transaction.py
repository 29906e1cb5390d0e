"""Running a workflow as a transaction: what a run writes is committed at its end, or dropped when it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from devmem.config import Workflow
from devmem.config.transaction_check import written_stores
from devmem.errors import RunFailedError
from devmem.runtime.results import RunResult
from devmem.stores import MemoryBase
from devmem.stores.runs import StoreRun, finish_decided

_FOLDER: Final = "runs"
"""Folder of decisions, within that of rescued writes."""


def finish_earlier(workflow: Workflow, stores: Mapping[str, MemoryBase], rescue_dir: Path | None) -> None:
    """Commit what an earlier process had decided to commit when it died."""
    if workflow.transaction and rescue_dir is not None:
        finish_decided(rescue_dir / _FOLDER, stores)


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
    pending = StoreRun(
        run,
        {name: stores[name] for name in names},
        decisions=None if rescue_dir is None else rescue_dir / _FOLDER,
    )
    try:
        result = operation({**stores, **pending.stores})
        _check_written(run, result)
        pending.check()
    except BaseException:
        pending.discard()
        raise
    pending.commit()
    return result


def _check_written(run: str, result: RunResult) -> None:
    """Raise `RunFailedError` when a store could not be written."""
    failures = [failure for node in result.nodes for failure in node.failures if failure.operation == "update"]
    if failures:
        raise RunFailedError(run, [str(failure) for failure in failures])
