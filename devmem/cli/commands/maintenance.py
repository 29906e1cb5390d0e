"""`devmem doctor` and `backup`: care for what stores keep."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem.cli.declaring import argument, option
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import (
    JsonTerminal,
    Session,
    check_session,
    load,
    require_file,
    unlock_file,
)
from devmem.cli.terminal import Terminal
from devmem.errors import CollectionError, CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.results import FileReport
from devmem.recording.forwarder import pending_file
from devmem.redaction import location_without_credentials
from devmem.storage.location_report import examine_location, repair_database
from devmem.storage.opening import file_of
from devmem.storage.pending import examine_pending
from devmem.storage.sqlite import backup as backups
from devmem.storage.sqlite.collection import record_backup
from devmem.storage.sqlite.examination import Examination, examine, readable_items, repair, report_of
from devmem.text.display import number_of
from devmem.text.files import replace_file
from devmem.transfer.exporting import Snapshot, json_parts
from devmem.workflow.stores import examine_file, examine_workflow

_SHORT: Final = 8
_WORKFLOWS: Final = (".yaml", ".yml")


def doctor(
    terminal: JsonTerminal,
    place: Annotated[
        str,
        argument("FILE", "Workflow (YAML), file or URL of a store, or file of pending work."),
    ],
    session: Session = DEFAULT_SESSION,
    salvage: Annotated[
        Path | None, option("Write every readable item into this file, to import again.", metavar="OUT")
    ] = None,
    fix: Annotated[bool, option("Rebuild what can be rebuilt.")] = False,
) -> None:
    """Examine what stores keep on disk, and mend it.

    For a workflow, every file of every store is examined: collections, states of conversations, and pending work
    (writes, records, deliveries). In a SQLite collection, rows, vectors and attachments are compared with their
    checksums; in a store in PostgreSQL, rows, terms, vectors and attachments with their items. An error means damage,
    a warning means pending work.

    The exit code is 1 if something is damaged. Nothing is changed unless `--fix` is given, and a file whose structure
    is damaged is never changed. `--fix` works on the SQLite file of a collection and on a store in PostgreSQL,
    `--salvage` on the file.

    Examples:
        devmem doctor team.yaml
        devmem doctor notes.db
        devmem doctor notes.db --salvage saved.json
        devmem doctor notes.db --fix
        devmem doctor "postgresql://localhost/team?store=notes" --fix
    """
    if salvage is not None and salvage.exists():
        raise CommandError(f"{salvage} already exists and was not changed; name another file.")
    reports, found, repaired = _examined(terminal, place, session, fix=fix, only_file=salvage is not None)
    if (fix and repaired is None) or (salvage is not None and found is None):
        raise CommandError(
            "--fix needs the SQLite file of a collection or the URL of a store in PostgreSQL, and --salvage the file; "
            f"{location_without_credentials(place)} is neither."
        )
    if salvage is not None and found is not None:
        items = list(readable_items(found.path, {}))
        store_type = str(found.facts.get("store_type") or "")
        snapshot = Snapshot(store=found.path.stem, store_type=store_type, exported_at=time.time(), items=items)
        replace_file(salvage, (part.encode("utf-8") for part in json_parts(snapshot)))
        terminal.report("note", f"{number_of(len(items), 'item')} written to {salvage}; `devmem import` reads them")
    if terminal.as_json:
        mended = {} if repaired is None else {"repaired": repaired}
        terminal.json([{"store": name or None, **_json_of(report), **mended} for name, report in reports])
    else:
        _show_reports(terminal, reports)
        for line in repaired or ():
            terminal.print(line)
    if repaired and found is not None:
        reports[0] = ("", report_of(examine(found.path)))
    elif repaired:
        reports = [("", report) for report in examine_location(place)]
    if not all(report.is_sound for _, report in reports):
        raise typer.Exit(EXIT_PARTLY)


def _examined(
    terminal: Terminal, place: str, session: str, *, fix: bool, only_file: bool
) -> tuple[list[tuple[str, FileReport]], Examination | None, list[str] | None]:
    """Examine a place, and with `fix` repair it.

    Returns:
        The reports, each with the name of its store, the examination of the file of a collection, and what was
        repaired; None for what the place is not, or cannot be.
    """
    file = Path(place)
    if file_of(place) is None:
        reports = [("", report) for report in examine_location(place)]
        return reports, None, repair_database(place) if fix and not only_file else None
    if file.suffix in _WORKFLOWS:
        workflow = load(terminal, file)
        check_session(workflow, session)
        return list(examine_workflow(workflow, session)), None, None
    unlock_file(file)
    if (report := examine_file(file)) is not None:
        return [("", report)], None, None
    found, waiting = examine(file), pending_file(file)
    beside = [("", examine_pending(waiting))] if waiting.exists() else []
    return [("", report_of(found)), *beside], found, repair(found) if fix else None


def _show_reports(terminal: Terminal, reports: Sequence[tuple[str, FileReport]]) -> None:
    for name, report in reports:
        counts = ", ".join(f"{count:,} {fact}" for fact, count in report.facts.items() if isinstance(count, int))
        owner = f"{name}: " if name else ""
        terminal.print(f"{owner}{report.path}: {report.kind}{f': {counts}' if counts else ''}")
        others = [f"{fact} {value}" for fact, value in report.facts.items() if isinstance(value, str)]
        if others:
            terminal.print(", ".join(others), style="dim")
        for finding in report.findings:
            terminal.report(finding.level.value, f"{owner}{finding.message}")
    if not any(report.findings for _, report in reports):
        terminal.print("nothing is wrong", style="green")


def _json_of(report: FileReport) -> dict[str, object]:
    return {
        "file": report.path,
        "kind": report.kind,
        "sound": report.is_sound,
        **report.facts,
        "findings": [{"level": finding.level.value, "message": finding.message} for finding in report.findings],
    }


def backup(
    terminal: JsonTerminal,
    file: Annotated[Path, argument("FILE", "SQLite file of a store.")],
    copy: Annotated[Path, argument("COPY", "File to write, which must not exist; or to restore.")],
    restore: Annotated[bool, option("Put COPY in the place of FILE instead.")] = False,
    force: Annotated[bool, option("With --restore: replace the items of FILE.")] = False,
) -> None:
    """Copy the file of a store while it is in use, or restore a copy.

    The copy is consistent and checked, even while others write. It is a store file that every
    command can read. FILE records that it was made, so that `devmem forget` can name it.

    A copy that is put in place by hand can be damaged by the log (`-wal`) of the old file; `--restore` removes it, or
    replaces the items of an existing file in one transaction. A damaged copy is refused, and a damaged file is left
    unchanged. Texts that tombstones beside the file refuse are erased again.

    Examples:
        devmem backup notes.db notes-2026-06-02.db
        devmem backup notes.db notes-2026-06-02.db --restore
    """
    if restore:
        require_file(file, "fill a store from a file with `devmem copy`")
        unlock_file(copy)
        items = backups.restore(copy, file, force=force)
        if kept_out := backups.erase_again(file):
            terminal.report(
                "note", f"{number_of(kept_out, 'item')} of the backup had been erased, and tombstones keep them out"
            )
        items -= kept_out
        answer = {"file": str(file), "items": items, "kept_out": kept_out}
        terminal.answer(answer, f"{file}: {number_of(items, 'item')}")
        return
    if force:
        raise CommandError("--force requires --restore; a backup never replaces an existing file.")
    require_file(file, "back it up with its server (`pg_dump`), or write one store into a file with `devmem copy`")
    items = backups.back_up(file, copy)
    try:
        record_backup(file, copy, items=items, made_at=time.time())
    except CollectionError as error:
        terminal.report("warning", f"`devmem forget` will not name this backup: {error}")
    terminal.answer({"file": str(copy), "items": items}, f"{copy}: {number_of(items, 'item')}")
