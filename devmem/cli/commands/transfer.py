"""`devmem import`, `export` and `copy`: items in and out of stores."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from pydantic_core import to_jsonable_python

from devmem.cli.commands.records import log_of
from devmem.cli.declaring import argument, option
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.inputs import STDIN, Ids, ListOrder, Newest, Output, check_output, deliver, pick
from devmem.cli.options import Fields, Selection, checked_fields, named_scope
from devmem.cli.targets import (
    ANY_NUMBER,
    NOW,
    JsonTerminal,
    ReadPlace,
    Session,
    StateOptions,
    StoreAddress,
    Target,
    announce,
    check_lasting,
    find_store,
    load,
    stores_of,
)
from devmem.cli.terminal import Terminal, date_text
from devmem.config.workflow import CopyRule
from devmem.errors import CommandError, DataFileError, DevmemError
from devmem.memory.opening import declared_like, is_workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.conditions import Order
from devmem.model.items import MemoryItem, Scope
from devmem.model.times import DateOrder
from devmem.redaction import location_without_credentials
from devmem.stores.abilities import record_export
from devmem.stores.archiving import count_archived
from devmem.stores.collection_memory import CollectionMemory
from devmem.text.analysis import shorten
from devmem.text.display import number_of, one_line
from devmem.transfer.copy import CopyReport, copy_items
from devmem.transfer.exporting import json_parts, markdown_parts, snapshot_of
from devmem.transfer.filling import Filler, RecordSummary
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.folders import data_files
from devmem.transfer.importing.formats import DataFile, open_data
from devmem.transfer.importing.records import Record
from devmem.transfer.importing.tables import KEYS
from devmem.workflow.recording import rebuild_view
from devmem.workflow.stores import location_of

Column: TypeAlias = Annotated[
    list[str] | None, option(f"Column of a table: text=Body. Keys: {', '.join(KEYS)}. Repeatable.", metavar="KEY=NAME")
]


_STDIN_NAME: Final = "standard input"
_SPEAKERS_SHOWN: Final = 5
_SAMPLE: Final = 100
"""Characters of a sample."""
_ONCE: Final = "items that are stored already are not stored twice."


def import_data(
    terminal: JsonTerminal,
    place: Annotated[
        StoreAddress,
        Target(words="DATA...", about="Files, folders, zip files; - is stdin.", least=1, most=ANY_NUMBER),
    ],
    data_format: Annotated[FileFormat, option("Format of the files.", "--format")] = FileFormat.AUTO,
    column: Column = None,
    field: Fields = None,
    encoding: Annotated[
        str | None, option("Encoding of texts and tables; detected by default.", metavar="NAME")
    ] = None,
    dates: Annotated[DateOrder | None, option("Order of day and month in dates such as 03/04/2025.")] = None,
    user: Annotated[str | None, option("User of items for which the files name none.", metavar="ID")] = None,
    agent: Annotated[str | None, option("Agent of items for which the files name none.", metavar="ID")] = None,
    conversation: Annotated[
        str | None, option("Conversation of items for which the files name none.", metavar="ID")
    ] = None,
    dry_run: Annotated[
        bool, option("Check the files, show what was understood and left out, and store nothing.")
    ] = False,
) -> None:
    """Fill a store from data files.

    DATA is a file, a folder, a pattern or a zip file: JSON lines with `text` and optionally `id`, `speaker`, `time`,
    `metadata`, `user` and so on; an export of devmem, ChatGPT, Claude, Slack, WhatsApp and others, a session of Claude
    Code or Codex, chat messages, mails, a calendar, contacts, notes, a page, a table, text, or one of the formats
    below. Nothing is stored twice; a record that is archived unchanged stays archived. Records and files that cannot be
    used are named and left out, and the exit code is 1 then.

    Examples:
        devmem import notes.db notes.json --user ann
        devmem import notes.db slack.zip vault/ 'chats/*.txt' mails.mbox calendar.ics --dry-run
        devmem import notes.db table.csv --column text=Body --column time=Sent --field Subject
        cat notes.txt | devmem import notes.db - --format text
        devmem import configs/demo/team.yaml notes configs/demo/conversation.jsonl --session demo
    """
    scope = Scope(**named_scope(user=user, agent=agent, conversation=conversation))
    columns, fields = _columns(column or (), encoding), checked_fields(field)
    read: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="devmem-") as folder, ExitStack() as stack:
        opening = partial(open_data, format=data_format, columns=columns, encoding=encoding, dates=dates)
        files = [
            (name, partial(opening, file, name=name))
            for word in place.words
            for file, name in _files(word, Path(folder))
        ]
        take = partial(_check, terminal, shown=not terminal.as_json)
        target = filler = None
        if not dry_run:
            check_lasting(place.make(), "an import")
            target = stack.enter_context(place.opened(save=True))
            filler = Filler(target, fields=fields, scope=scope)
            take = partial(_fill, terminal, filler, shown=not terminal.as_json)
        for name, open_file in files:
            try:
                read.append({"file": name, **take(name, open_file)})
            except DevmemError as error:
                cause = error if isinstance(error, DataFileError) else error.__cause__
                if len(files) == 1 or not isinstance(cause, DataFileError):
                    raise
                terminal.report("error", f"left out: {error}")
                read.append({"file": name, "error": str(error)})
        if target is not None and filler is not None:
            total = target.count()
            text = f"{place.store}: {_counted(filler.counts)}; the store has {number_of(total, 'item')} now"
            terminal.answer({"store": place.store, "files": read, "items": total}, text)
            for note in filler.notes():
                terminal.report("warning", note)
        elif terminal.as_json:
            terminal.json({"files": read})
    if len(files) > 1 and not any("format" in one for one in read):
        raise CommandError("no file could be read.")
    if any("error" in one or "unusable" in one for one in read):
        raise typer.Exit(EXIT_PARTLY)


def _check(terminal: Terminal, name: str, open_file: Callable[[], DataFile], *, shown: bool) -> dict[str, Any]:
    """Read all records of a file and store none; return what is known of them."""
    found, summary = open_file(), RecordSummary()
    for record in _records(terminal, found):
        summary.note(record)
    if shown:
        all_usable = "" if found.left_out.unusable.count else ", all usable"
        told = f"{summary.records:,} records{all_usable}"
        if summary.times:
            first, last = map(date_text, summary.times)
            told += f"; from {first} to {last}"
        if summary.speakers:
            named = [f"{speaker} ({count:,})" for speaker, count in summary.speakers.most_common(_SPEAKERS_SHOWN)]
            more = len(summary.speakers) - _SPEAKERS_SHOWN
            told += f"; speakers: {', '.join(named)}{f' and {more:,} more' if more > 0 else ''}"
        terminal.print(f"{name}: {found.format.value}: {told}{_left_out_text(found)}")
        for sample in summary.samples:
            terminal.print(f"  {shorten(one_line(sample), _SAMPLE)}")
    return {"format": found.format.value, "records": summary.records, **summary.facts(), **found.left_out.facts()}


def _left_out_text(found: DataFile) -> str:
    """Return what of a file is left out, to be put behind other facts."""
    notes = found.left_out.notes()
    return f"; left out: {', '.join(notes)}" if notes else ""


def _columns(options: Sequence[str], encoding: str | None) -> dict[str, str]:
    """Return the names of columns by their keys; raises `CommandError` for an invalid pair, or an unknown encoding."""
    try:
        "".encode(encoding or "utf-8")
    except LookupError as error:
        raise CommandError(f"--encoding {encoding!r}: unknown encoding.") from error
    columns = {}
    for pair in options:
        key, equals, name = pair.partition("=")
        if key not in KEYS or not equals or not name:
            raise CommandError(f"--column {pair!r}: write KEY=NAME, with one of the keys {', '.join(KEYS)}.")
        columns[key] = name
    return columns


def _files(word: str, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file that an argument names, with the name that is shown for it.

    Raises:
        DataFileError: nothing is there, or an archive cannot be unpacked.
    """
    if word != STDIN:
        yield from data_files(Path(word), folder)
        return
    # Formats are detected by reading more than once.
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    yield path, _STDIN_NAME


def _fill(
    terminal: Terminal, filler: Filler, name: str, open_file: Callable[[], DataFile], *, shown: bool
) -> dict[str, Any]:
    """Store the records of a file; return its format, and the numbers of what became of them."""
    before = Counter(filler.counts)
    try:
        found = open_file()
        filler.fill(_records(terminal, found), found.fields)
    except KeyboardInterrupt:
        stored = _counted(filler.counts - before)
        note = f"{name}: {stored} before the interruption. Run the same command again to go on: {_ONCE}"
        terminal.report("note", note)
        raise
    except DevmemError as error:
        done = filler.counts - before
        if not done:
            raise
        raise CommandError(
            f"{name}: the import stopped after {_counted(done)}; the records after them are not stored: "
            f"{str(error).rstrip('.')}. Run the same command again when that is corrected: {_ONCE}"
        ) from error
    done = filler.counts - before
    if shown:
        terminal.print(f"{name}: {_counted(done)}{_left_out_text(found)}")
    return {"format": found.format.value, "counts": dict(done), **found.left_out.facts()}


def _records(terminal: Terminal, found: DataFile) -> Iterator[Record]:
    """Yield the records of a file while a bar shows the progress."""
    with terminal.progress(found.path.name, found.size, in_bytes=True) as bar:
        for record in found.records:
            yield record
            bar.update(bar.task_ids[0], completed=found.position())


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"


class SnapshotFormat(StrEnum):
    """Formats of an export."""

    JSON = "json"
    MARKDOWN = "markdown"


_BY_SUFFIX: Final = {".md": SnapshotFormat.MARKDOWN, ".markdown": SnapshotFormat.MARKDOWN}


def export(
    terminal: Terminal,
    place: ReadPlace,
    selection: Selection,
    snapshot_format: Annotated[
        SnapshotFormat | None,
        option("`json` to import, `markdown` to read; by default according to the suffix of FILE.", "--format"),
    ] = None,
    output: Output = None,
    ids: Ids = None,
    newest: Newest = None,
    order: ListOrder = Order.STORED,
    state: StateOptions = NOW,
) -> None:
    """Write a store's items as JSON or Markdown.

    `devmem import` reads the JSON back without loss. Embeddings are not included: the store that imports the items
    makes its own. The store records the export, so that `devmem forget` can name it if it may contain forgotten items.

    Archived items are left out, and counted; `--archived` exports them instead, for another store.

    Examples:
        devmem export configs/demo/team.yaml notes --session demo --output notes.json
    """
    place.check_written("; nothing was written")
    check_output(place, output)
    with place.opened(state) as source:
        where = selection.filter
        now = nullcontext(source) if state.is_current else place.opened()

        def items() -> Iterator[MemoryItem]:
            for at, item in enumerate(pick(source, ids, newest, where, order)):
                if at == 0:
                    # An export that is cut off later has left with some, too.
                    with now as store:
                        count = len(set(ids)) if ids else min(newest or ANY_NUMBER, source.count(where))
                        made = str(output.absolute()) if output is not None else ""
                        if reason := record_export(store, made, items=count, where=where, ids=ids or ()):
                            terminal.report("note", reason)
                yield item

        by_suffix = _BY_SUFFIX.get(output.suffix.lower() if output else "", SnapshotFormat.JSON)
        parts = markdown_parts if (snapshot_format or by_suffix) is SnapshotFormat.MARKDOWN else json_parts
        deliver(terminal, parts(snapshot_of(source, items())), output)
        if state.is_current and (left := count_archived(source, where)):
            terminal.report("note", f"{number_of(left, 'item')} in the archive left out; `--archived` exports them")


Places: TypeAlias = Annotated[
    list[str],
    argument("[FILE] FROM TO", "Two memories, or a workflow and two of its stores; a workflow alone."),
]

_SHOWN: Final = 5
_TWO_MEMORIES: Final = 2
_IN_ONE_WORKFLOW: Final = 3


def copy(
    terminal: JsonTerminal,
    places: Places,
    into: Annotated[str | None, option("Of a workflow alone: only the copies in this store.", metavar="STORE")] = None,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Copy every item of one store into another.

    A memory is a file (notes.db), a URL (postgresql://...) or a store of a workflow (team.yaml#notes); one that does
    not exist yet becomes a store of the same type. Each item is read back and compared, and what the other store could
    not keep is reported. An interrupted copy continues when it is run again.

    For a workflow alone, agents' stores are restored from its global memory: the rules under `conversation.copies` say
    which records belong in which store. Existing items stay unchanged; missing ones are added.

    Examples:
        devmem copy notes.db "postgresql://localhost/team?store=notes"
        devmem copy "postgresql://localhost/team?store=notes" backup.db
        devmem copy configs/mem0.yaml hosted archive
        devmem copy team.yaml --into writer_notes
    """
    if len(places) == 1 and is_workflow(places[0]):
        _copy_by_rules(terminal, Path(places[0]), into, session)
        return
    if into is not None:
        raise CommandError("--into can be used only for a workflow alone, whose rules say what to copy.")
    if len(places) == _IN_ONE_WORKFLOW:
        workflow = load(terminal, Path(places[0]))
        source, target = stores_of(terminal, workflow, places[1:], session)
        names = places[1], places[2]
    elif len(places) == _TWO_MEMORIES:
        source = find_store(terminal, places[0], session=session, reading=True)
        declared, store = declared_like(places[1], source.workflow, source.store)
        announce(terminal, declared)
        target = StoreAddress(terminal=terminal, workflow=declared, store=store, session=session)
        names = location_without_credentials(places[0]), location_without_credentials(places[1])
    else:
        raise CommandError("expected two memories (FROM TO), or a workflow and two of its stores (FILE FROM TO).")
    _copy(terminal, source, target, names)


def _copy(terminal: Terminal, source: StoreAddress, target: StoreAddress, names: tuple[str, str]) -> None:
    first, second = names
    if first == second:
        raise CommandError(f"memory store {first!r} cannot be copied into itself.")
    with (
        source.opened_existing() as origin,
        target.opened(save=True) as place,
    ):
        check_lasting(place, "a copy")
        stores = [store for store in (origin, place) if isinstance(store, CollectionMemory) and location_of(store)]
        locations = [store.info().location for store in stores]
        if len(locations) > len(set(locations)):
            raise CommandError(f"{locations[0]} cannot be copied into itself.")
        with terminal.progress(f"{first} -> {second}", origin.count()) as bar:
            report = copy_items(origin, place, lambda done: bar.advance(bar.task_ids[0], done))
        total = place.count()
    if terminal.as_json:
        terminal.json(
            {**to_jsonable_python(report), "counts": +report.counts, "identical": report.identical, "items": total}
        )
    else:
        _show(terminal, report, f"{first} -> {second}", f"{second} has {number_of(total, 'item')} now")
    if not report.complete:
        raise typer.Exit(EXIT_PARTLY)


def _copy_by_rules(terminal: Terminal, file: Path, into: str | None, session: str) -> None:
    """Copy records of the global memory again into the stores that the rules of a workflow name."""
    workflow = load(terminal, file)
    block = workflow.conversation
    rules = [rule for rule in block.copies if into in (None, rule.into)] if block is not None else []
    if block is None or not rules:
        named = f" into {into!r}" if into is not None else ""
        raise CommandError(f"{file} has no rule under `conversation.copies` that copies{named}.")
    done: list[tuple[CopyRule, int, int]] = []
    with ExitStack() as stack:
        first, *others = stores_of(terminal, workflow, [block.store, *(rule.into for rule in rules)], session)
        log = log_of(stack.enter_context(first.opened()), block.store)
        for rule, place in zip(rules, others, strict=True):
            target = stack.enter_context(place.opened(save=True))
            done.append((rule, *rebuild_view(log, rule, target)))
    if terminal.as_json:
        terminal.json([{"store": rule.into, "records": count, "added": added} for rule, count, added in done])
        return
    for rule, count, added in done:
        terminal.print(f"{rule.into}: {count:,} records of {', '.join(rule.agents) or 'all agents'}, {added:,} added")


def _show(terminal: Terminal, report: CopyReport, direction: str, now: str) -> None:
    counted = ", ".join(f"{count:,} {name}" for name, count in report.counts.items() if count) or "nothing to copy"
    checked = f", the same by SHA-256 ({report.source_hash:064x})" if report.identical and report.counts else ""
    terminal.print(f"{direction}: {counted}; {now}{checked}")
    if report.versions:
        terminal.print(f"{report.versions:,} earlier versions were taken over")
    if report.states:
        terminal.print(f"{report.states:,} states beside the items were taken over")
    if report.archived:
        terminal.print(f"{number_of(report.archived, 'item')} archived there, too")
    if report.still_archived:
        left = number_of(report.still_archived, "item")
        terminal.report("note", f"left in the archive there: {left}; `devmem update --unarchive` brings them back")
    if report.unarchived:
        terminal.report("note", f"taken out of the archive there: {number_of(report.unarchived, 'item')}")
    if report.kept_out:
        terminal.report("note", f"{len(report.kept_out):,} item(s) were not copied, as tombstones keep them out")
    if report.vectors_left:
        terminal.report("warning", report.vectors_left)
    for part, count in sorted(report.lost.items()):
        terminal.report("warning", f"{part} of {count:,} item(s) could not be carried over")
    _show_missing(terminal, report)


def _show_missing(terminal: Terminal, report: CopyReport) -> None:
    if report.archived_left:
        left = f"{number_of(report.archived_left, 'item')} in the archive not copied"
        terminal.report("error", f"{left}: the target has no archive, or other items of their ids")
    if report.unseen:
        listed = ", ".join(report.unseen[:_SHOWN])
        terminal.report(
            "error",
            f"{len(report.unseen):,} item(s) were written but cannot be read back yet ({listed}); repeat the command",
        )
    for item_id, reason in list(report.skipped.items())[:_SHOWN]:
        terminal.report("error", f"{item_id} was not copied: {reason}")
    if len(report.skipped) > _SHOWN:
        terminal.report("error", f"and {len(report.skipped) - _SHOWN:,} more were not copied; `--json` names them all")
