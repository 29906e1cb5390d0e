"""Examining everything that the stores of a workflow keep, or one file of any kind, without changing it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devmem.config.workflow import Workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.results import FileReport, damage
from devmem.plugins import StoreRegistry, registry
from devmem.recording.forwarder import examine_journals, journal_folder
from devmem.storage.location_report import examine_json
from devmem.storage.outbox import OUTBOX_TABLE, examine_outbox
from devmem.storage.sidecar_db import tables_of
from devmem.workflow.recording import journals_of
from devmem.workflow.rescue import examine_rescue_file, examine_rescued
from devmem.workflow.stores import make_store, session_folder


def examine_workflow(
    workflow: Workflow, session: str = DEFAULT_SESSION, types: StoreRegistry = registry
) -> Iterator[tuple[str, FileReport]]:
    """Yield a report of each file that a workflow's stores keep, with the store's name.

    The name is empty for the session's own files: writes that no store took.

    Raises:
        SessionNameError: the session's name cannot be used.
    """
    folder = session_folder(workflow, session)
    for declaration in workflow.memory:
        for report in _examine_store(workflow, declaration.name, session, types):
            yield declaration.name, report
    for report in examine_rescued(folder):
        yield "", report


def _examine_store(workflow: Workflow, name: str, session: str, types: StoreRegistry) -> Iterator[FileReport]:
    try:
        store = make_store(workflow, name, session=session, types=types)
        try:
            yield from store.examine()
            journals = journals_of(store, session_folder(workflow, session))
        finally:
            store.close()
    except Exception as error:  # noqa: BLE001 - a store type may be third-party code; the other stores are examined
        yield FileReport(path=name, kind="store", findings=[damage(f"it cannot be examined: {error}")])
        return
    if journals.is_dir():
        yield examine_journals(journals)


def examine_file(path: Path) -> FileReport | None:
    """Return the report of a file of any kind but a SQLite collection; None where it is no such file.

    A folder is taken for one of journals. Raises `FileNotFoundError` when there is nothing at the path.
    """
    if path.is_dir():
        return examine_journals(path)
    if not path.exists():
        raise FileNotFoundError(2, "No such file", str(path))
    if path.suffix == ".json":
        return examine_json(path)
    if path.suffix == ".jsonl":
        return examine_rescue_file(path)
    return examine_outbox(path) if OUTBOX_TABLE in tables_of(path) else None


def journals_beside(path: Path) -> FileReport | None:
    """Return the report of the journals beside the file of a collection; None where there are none."""
    folder = journal_folder(path)
    return examine_journals(folder) if folder.is_dir() else None
