"""Examining everything that the stores of a workflow keep, or one file of any kind, without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devmem.config.workflow import Workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.results import FileReport, damage
from devmem.plugins import StoreRegistry, registry
from devmem.recording.forwarder import pending_file
from devmem.storage.connections import tables_of
from devmem.storage.location_report import examine_json
from devmem.storage.pending import STATE_FILE, examine_pending
from devmem.stores.commit_log import erasures_file
from devmem.workflow.recording import records_of
from devmem.workflow.stores import make_store, session_folder


def examine_workflow(
    workflow: Workflow, session: str = DEFAULT_SESSION, types: StoreRegistry = registry
) -> Iterator[tuple[str, FileReport]]:
    """Yield a report of each file that a workflow's stores keep, with the store's name.

    The name is empty for the files of state, which have what waits for any of them: the session's own file, and that of
    the workflow's decided erasures.

    Raises:
        SessionNameError: the session's name cannot be used.
    """
    folder = session_folder(workflow, session)
    for declaration in workflow.memory:
        for report in _examine_store(workflow, declaration.name, session, types):
            yield declaration.name, report
    for file in (folder / STATE_FILE, erasures_file(workflow.base_dir)):
        if file.exists():
            yield "", examine_pending(file)


def _examine_store(workflow: Workflow, name: str, session: str, types: StoreRegistry) -> Iterator[FileReport]:
    try:
        store = make_store(workflow, name, session=session, types=types)
        try:
            yield from store.examine()
            file, name = records_of(store, session_folder(workflow, session))
        finally:
            store.close()
    except Exception as error:  # noqa: BLE001 - a store type may be third-party code; the other stores are examined
        yield FileReport(path=name, kind="store", findings=[damage(f"it cannot be examined: {error}")])
        return
    if not name and file.exists():
        yield examine_pending(file)


def examine_file(path: Path) -> FileReport | None:
    """Return the report of a file that is not a SQLite collection; None where it is one.

    Raises `FileNotFoundError` when there is nothing at the path.
    """
    if not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    if path.suffix == ".json":
        return examine_json(path)
    tables = tables_of(path)
    is_pending = "pending" in tables and "items" not in tables
    return examine_pending(path) if is_pending or path.name == STATE_FILE or path.suffix == ".pending" else None


def pending_beside(path: Path) -> FileReport | None:
    """Return the report of what waits beside the file of a collection; None where nothing does."""
    file = pending_file(path)
    return examine_pending(file) if file.exists() else None
