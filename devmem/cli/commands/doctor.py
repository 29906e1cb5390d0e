"""`devmem doctor`: examine the file of a store, and save or rebuild what is damaged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson
from devmem.collections.attachments import AttachmentFiles, with_inline_attachments
from devmem.collections.sqlite.examination import Examination, examine, readable_items
from devmem.collections.sqlite.repair import repair
from devmem.messages import AttachmentRef
from devmem.text.atomic_write import replace_file
from devmem.transfer.exporting import json_parts
from devmem.transfer.exporting.snapshot import Snapshot

_SHOWN: Final = 20
"""Maximum number of unreadable items that are listed."""


def doctor(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SQLite file of a store.")],
    salvage: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write every readable item into this file, to import again.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Rebuild what can be rebuilt.")] = False,
    as_json: AsJson = False,
) -> None:
    """Examine the file of a store.

    It counts items, terms, vectors and items that wait for their embedding, compares checksums, and looks for rows
    that belong to nothing and for leftover files. The exit code is 1 when something is wrong. The file is not changed
    unless `--fix` is given, and a file whose structure is damaged never is.

    Examples:
        devmem doctor notes.db
        devmem doctor notes.db --salvage saved.json
        devmem doctor notes.db --fix
    """
    terminal: Terminal = ctx.obj
    if salvage is not None and salvage.exists():
        raise CommandError(f"{salvage} is there already and was not changed; name another file.")
    found = examine(file)
    repaired = repair(found) if fix else []
    if salvage is not None:
        saved = _salvage(terminal, found, salvage)
        terminal.report("note", f"{items_text(saved)} written to {salvage}; `devmem import` reads them")
    if as_json:
        terminal.json(_as_json(found) | ({"repaired": repaired} if fix else {}))
    else:
        _show(terminal, found, repaired)
    if not (examine(file) if repaired else found).is_sound:
        raise typer.Exit(EXIT_PARTLY)


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


def _show(terminal: Terminal, found: Examination, repaired: list[str]) -> None:
    counts = ", ".join(f"{count:,} {name}" for name, count in found.counts.items())
    terminal.print(f"{found.path}: {counts or 'nothing can be counted'}")
    model = found.facts.get("model")
    terminal.print(
        f"store type {found.facts.get('store_type') or 'unknown'}, vectors of {model or 'no model'}", style="dim"
    )
    for message in found.damage:
        terminal.report("error", f"structure: {message}")
    for row, reason in list(found.unreadable.items())[:_SHOWN]:
        terminal.report("error", f"row {row} cannot be read: {reason}")
    if len(found.unreadable) > _SHOWN:
        terminal.report("error", f"and {len(found.unreadable) - _SHOWN:,} more items cannot be read")
    for text in _doubts(found):
        terminal.report("warning", text)
    for line in repaired:
        terminal.print(line)
    if found.is_sound and not found.orphans and not found.leftovers:
        terminal.print("nothing is wrong", style="green")


def _doubts(found: Examination) -> list[str]:
    """Return what a repair can put right."""
    told = [f"{count:,} {kind}" for kind, count in found.orphans.items()]
    if found.bad_vectors:
        told.append(f"{len(found.bad_vectors):,} passages with damaged vectors")
    if found.without_terms:
        told.append(f"{items_text(len(found.without_terms))} without terms, which no search finds")
    if found.miscounted:
        told.append(f"{found.facts['count']} items are recorded, {found.counts['items']:,} are there")
    return told + [f"leftover of a killed writer: {path.name}" for path in found.leftovers]


def _as_json(found: Examination) -> dict[str, object]:
    return {
        "file": str(found.path),
        "sound": found.is_sound,
        "store_type": found.facts.get("store_type"),
        "model": found.facts.get("model"),
        **found.counts,
        "damage": found.damage,
        "unreadable": {str(row): reason for row, reason in found.unreadable.items()},
        "bad_vectors": len(found.bad_vectors),
        "without_terms": len(found.without_terms),
        "orphans": found.orphans,
        "leftovers": [str(path) for path in found.leftovers],
    }
