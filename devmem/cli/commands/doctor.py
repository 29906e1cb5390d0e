"""`devmem doctor`: examine what a workflow's stores keep, or one file, and save or rebuild what is damaged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.places import require_file
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, check_session, load
from devmem.collections.attachments import AttachmentFiles, with_inline_attachments
from devmem.collections.sqlite.examination import Examination, examine, readable_items
from devmem.collections.sqlite.repair import repair
from devmem.collections.sqlite.report import report_of
from devmem.messages import AttachmentRef
from devmem.model.file_report import FileReport
from devmem.runtime import DEFAULT_SESSION
from devmem.runtime.examination import examine_file, examine_workflow, journals_beside
from devmem.text.atomic_write import replace_file
from devmem.transfer.exporting import json_parts
from devmem.transfer.exporting.snapshot import Snapshot

_WORKFLOWS: Final = (".yaml", ".yml")


def doctor(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Workflow (YAML), file of a store, outbox, or folder of journals.")
    ],
    session: Session = DEFAULT_SESSION,
    salvage: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write every readable item into this file, to import again.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Rebuild what can be rebuilt.")] = False,
    as_json: AsJson = False,
) -> None:
    """Examine what stores keep on disk.

    Of a workflow, every file of every store is examined: collections, manifests, states of conversations, outboxes,
    journals of records, and writes that no store took. A file is examined by its kind. Of a SQLite collection, rows,
    vectors and attachments are compared with their checksums. An error is damage, a warning is work that waits.

    The exit code is 1 when something is damaged. Nothing is changed unless `--fix` is given, and a file whose
    structure is damaged never is; `--salvage` and `--fix` are for the SQLite file of a collection.

    Examples:
        devmem doctor team.yaml
        devmem doctor notes.db
        devmem doctor notes.db --salvage saved.json
        devmem doctor notes.db --fix
    """
    terminal: Terminal = ctx.obj
    _check_arguments(file, salvage)
    if file.suffix in _WORKFLOWS:
        others = list(_of_workflow(terminal, file, session))
    elif (report := examine_file(file)) is not None:
        others = [("", report)]
    else:
        _examine_collection(terminal, file, salvage, fix=fix, as_json=as_json)
        return
    if fix or salvage is not None:
        raise CommandError(f"--fix and --salvage are for the SQLite file of a collection, which {file} is not.")
    if as_json:
        terminal.json([{"store": name or None, **_json_of(report)} for name, report in others])
    else:
        _show_reports(terminal, others)
    if not all(report.is_sound for _, report in others):
        raise typer.Exit(EXIT_PARTLY)


def _check_arguments(file: Path, salvage: Path | None) -> None:
    require_file(file, "examine it with its server's own tools")
    if salvage is not None and salvage.exists():
        raise CommandError(f"{salvage} is there already and was not changed; name another file.")


def _of_workflow(terminal: Terminal, file: Path, session: str) -> Iterator[tuple[str, FileReport]]:
    workflow = load(terminal, file)
    check_session(workflow, session)
    return examine_workflow(workflow, session)


def _examine_collection(terminal: Terminal, file: Path, salvage: Path | None, *, fix: bool, as_json: bool) -> None:
    found = examine(file)
    repaired = repair(found) if fix else []
    if salvage is not None:
        saved = _salvage(terminal, found, salvage)
        terminal.report("note", f"{items_text(saved)} written to {salvage}; `devmem import` reads them")
    journals = journals_beside(file)
    if as_json:
        beside = {} if journals is None else {"journals": _json_of(journals)}
        terminal.json(_as_json(found) | beside | ({"repaired": repaired} if fix else {}))
    else:
        _show_reports(terminal, [("", report_of(found)), *([("", journals)] if journals is not None else [])])
        for line in repaired:
            terminal.print(line)
    is_sound = (examine(file) if repaired else found).is_sound
    if not is_sound or (journals is not None and not journals.is_sound):
        raise typer.Exit(EXIT_PARTLY)


def _show_reports(terminal: Terminal, reports: Sequence[tuple[str, FileReport]]) -> None:
    for name, report in reports:
        counts = ", ".join(f"{count:,} {fact}" for fact, count in report.facts.items() if isinstance(count, int))
        owner = f"{name}: " if name else ""
        terminal.print(f"{owner}{report.path}: {report.kind}{f': {counts}' if counts else ''}")
        others = [f"{fact} {value}" for fact, value in report.facts.items() if isinstance(value, str)]
        if others:
            terminal.print(", ".join(others), style="dim")
        for finding in report.findings:
            terminal.report(finding.level.value, finding.message)
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


def _salvage(terminal: Terminal, found: Examination, out: Path) -> int:
    """Write the readable items as an export; return their number."""
    files = AttachmentFiles(found.path.with_name(found.path.name + ".files"))

    def lost(ref: AttachmentRef, error: OSError) -> None:
        terminal.report("error", f"the attachment {ref.name or ref.attachment_id!r} cannot be read: {error}")

    items = [with_inline_attachments(files.resolve(item), lost) for item in readable_items(found.path, {})]
    store_type = str(found.facts.get("store_type") or "")
    snapshot = Snapshot(store=found.path.stem, store_type=store_type, exported_at=time.time(), items=items)
    replace_file(out, (part.encode("utf-8") for part in json_parts(snapshot)))
    return len(items)


def _as_json(found: Examination) -> dict[str, object]:
    return {
        "file": str(found.path),
        "kind": "collection",
        "sound": found.is_sound,
        "store_type": found.facts.get("store_type"),
        "model": found.facts.get("model"),
        **found.counts,
        "damage": found.damage,
        "unreadable": {str(row): reason for row, reason in found.unreadable.items()},
        "bad_vectors": len(found.bad_vectors),
        "properties_differ": found.unsealed,
        "bad_passages": len(found.bad_passages),
        "bad_columns": len(found.bad_columns),
        "bad_versions": len(found.bad_versions),
        "attachments": [finding.message for finding in found.attachments],
        "without_terms": len(found.without_terms),
        "orphans": found.orphans,
        "leftovers": [str(path) for path in found.leftovers],
    }
