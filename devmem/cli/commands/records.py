"""`devmem flow`, `log`, `trace` and `shown`: what agents said to each other, and which memories they received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.inputs import (
    Ids,
    Newest,
    Output,
    check_anything_there,
    check_output,
    deliver,
    full_scope_id,
    pick,
    whole_id,
)
from devmem.cli.options import Selection, selecting
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    WorkflowFile,
    find_store,
    load,
    opened,
    opened_existing,
    split_words,
)
from devmem.cli.terminal import Terminal, date_text, number, zoned
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.interactions import Interaction
from devmem.recording.log import InteractionLog
from devmem.storage.pending import STATE_FILE
from devmem.storage.recall_log import Recall, RecallEntry, RecallLog
from devmem.stores.memory import MemoryBase
from devmem.text.analysis import shorten
from devmem.text.files import replace_file
from devmem.views.diagrams import (
    SHOWN,
    Transfer,
    call_tree,
    dot_graph,
    edges_of,
    mermaid_flowchart,
    mermaid_sequence,
    png_picture,
    timeline_lines,
    transfers_of,
    tree_lines,
)
from devmem.views.documents import recall_json
from devmem.workflow.stores import session_folder


class FlowFormat(StrEnum):
    """Formats of a drawing."""

    MERMAID = "mermaid"
    """A Mermaid flowchart: who sends to whom, how often, caused by what."""
    SEQUENCE = "sequence"
    """A Mermaid sequence diagram: every message in order."""
    DOT = "dot"
    """A Graphviz graph."""
    PNG = "png"
    """A picture of the graph."""


_BY_SUFFIX: Final = {".dot": FlowFormat.DOT, ".gv": FlowFormat.DOT, ".png": FlowFormat.PNG}


@selecting()
def flow(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    flow_format: Annotated[
        FlowFormat | None, typer.Option("--format", help="Format; by default according to the suffix of FILE.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    ids: Ids = None,
    newest: Newest = None,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
) -> None:
    """Draw who sent what to whom.

    The senders, receivers and causes are taken from the items of a store. A picture (`png`) is drawn by Graphviz or
    by matplotlib; the other formats need neither.

    Examples:
        devmem flow configs/two_agents.yaml board --format sequence
    """
    terminal: Terminal = ctx.obj
    chosen = flow_format or _BY_SUFFIX.get(output.suffix.lower() if output else "", FlowFormat.MERMAID)
    if chosen is FlowFormat.PNG and output is None and not as_json:
        raise CommandError("`--format png` needs a file: add --output FILE.png.")
    place = find_store(terminal, memory, store, session, reading=True)
    check_anything_there(place)
    check_output(place, output)
    with opened(terminal, place, looking=True) as source:
        transfers = transfers_of(pick(source, ids, newest, selection.where))
    if as_json:
        terminal.json([asdict(one) for one in transfers])
    elif not transfers:
        raise CommandError(f"no matching item of memory store {place.store!r} records a message; nothing was drawn.")
    elif chosen is FlowFormat.PNG and output is not None:
        replace_file(output, [png_picture(edges_of(transfers))])
        terminal.report("note", f"written to {output}")
    else:
        deliver(terminal, _drawn(transfers, chosen), output)


def _drawn(transfers: list[Transfer], chosen: FlowFormat) -> Iterable[str]:
    if chosen is FlowFormat.SEQUENCE:
        return mermaid_sequence(transfers)
    edges = edges_of(transfers)
    return dot_graph(edges) if chosen is FlowFormat.DOT else mermaid_flowchart(edges)


Full: TypeAlias = Annotated[bool, typer.Option("--full", help="Show long contents in full.")]


def log_of(memory: MemoryBase, name: str) -> InteractionLog:
    """Return the store as a log of interactions.

    Raises:
        CommandError: it is of a type that keeps none.
    """
    if not isinstance(memory, InteractionLog):
        raise CommandError(f"memory store {name!r} keeps no interactions; a store of type `conversation` does.")
    return memory


def print_records(
    terminal: Terminal, records: Sequence[Interaction], lines: Iterable[str], what: str, *, as_json: bool
) -> None:
    """Print records as lines, or as JSON.

    Raises:
        CommandError: there is none.
    """
    if as_json:
        terminal.json([record.to_json() for record in records])
        return
    if not records:
        raise CommandError(f"nothing is recorded of {what}.")
    for line in lines:
        terminal.print(line)


def log(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] CONVERSATION", help="Id of the conversation.")],
    full: Full = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show a conversation as a timeline.

    Each line has the time, the sender and the receiver, and the text of a record.

    Examples:
        devmem log team.yaml global c1
    """
    terminal: Terminal = ctx.obj
    place = split_words(
        terminal, memory, words, session, least=1, most=1, usage="MEMORY [STORE] CONVERSATION", reading=True
    )
    with opened_existing(terminal, place, looking=True) as store:
        records = log_of(store, place.store).log(full_scope_id(store, "conversation", place.words[0]))
    lines = timeline_lines(records, length=None if full else SHOWN)
    print_records(terminal, records, lines, f"conversation {place.words[0]!r}", as_json=as_json)


def trace(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] TRACE", help="Id of the trace.")],
    full: Full = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the calls of a trace as a tree.

    Each call is followed by the calls that were made from within it, and by its answer (`=`) or its error (`!`).

    Examples:
        devmem trace team.yaml global t1
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, session, least=1, most=1, usage="MEMORY [STORE] TRACE", reading=True)
    with opened_existing(terminal, place, looking=True) as store:
        records = log_of(store, place.store).trace(full_scope_id(store, "trace", place.words[0]))
    lines = tree_lines(call_tree(records), length=None if full else SHOWN)
    print_records(terminal, records, lines, f"trace {place.words[0]!r}", as_json=as_json)


_SHORT = 8
_COLUMNS = ("step", "time", "run", "agent", "stage", "shown", "left out", "tokens", "asked")


def shown(
    ctx: typer.Context,
    file: WorkflowFile,
    step: Annotated[int | None, typer.Argument(metavar="STEP", help="Number of a step to show in full.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only steps of this run.")] = None,
    node: Annotated[str | None, typer.Option(metavar="ID", help="Only steps of this node.")] = None,
    item: Annotated[str | None, typer.Option(metavar="ID", help="Only steps that found this item.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the last steps.")] = 20,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show what agents were shown.

    Without STEP, lists the most recent steps; with it, shows that step's block and where each entry came from. A
    workflow with `record_recalls: true` records the steps. Items erased since then are missing from the blocks.

    Examples:
        devmem shown team.yaml
        devmem shown team.yaml 12
        devmem shown team.yaml --item 5f2c9a
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    log = RecallLog(session_folder(workflow, session) / STATE_FILE)
    if not log.file.exists():
        advice = "run it again" if workflow.record_recalls else "add `record_recalls: true` to it and run it"
        raise CommandError(f"nothing is recorded of {file} in {log.file}; {advice}.")
    if step is not None:
        _show_step(terminal, log, step, as_json=as_json)
        return
    run = None if run is None else whole_id("run", run, [one.run for one in log.runs(limit=10_000) if one.run])
    item = None if item is None else whole_id("item", item, log.items(item))
    found = log.recalls(run=run, node=node, item=item, limit=limit)
    if as_json:
        terminal.json([recall_json(one) for one in found])
    else:
        terminal.table(zoned(_COLUMNS), list(map(_row, found)), numbers=("step", "shown", "left out", "tokens"))


def _row(recall: Recall) -> tuple[str, ...]:
    return (
        str(recall.id),
        date_text(recall.at),
        (recall.run or "")[:_SHORT],
        recall.agent,
        recall.stage.value,
        str(len(recall.shown)),
        str(len(recall.entries) - len(recall.shown)),
        str(recall.tokens),
        shorten(recall.query or "", 60),
    )


def _show_step(terminal: Terminal, log: RecallLog, step: int, *, as_json: bool) -> None:
    recall = log.recall(step)
    if recall is None:
        raise CommandError(f"there is no step {step} in {log.file}; it may be older than the retention.")
    if as_json:
        terminal.json(recall_json(recall))
        return
    budget = "" if recall.budget is None else f" of {recall.budget:,}"
    terminal.print(f"{recall.agent} at {recall.stage.value}, {date_text(recall.at)}, run {recall.run or '-'}")
    terminal.print(f"asked: {recall.query or '(not kept)'}")
    terminal.print(f"{recall.tokens:,}{budget} tokens")
    terminal.print()
    terminal.print(recall.block or ("(nothing)" if recall.block == "" else "(the text is not kept)"))
    terminal.print()
    columns = ("item", "store", "score", "trust", "origin", "user", "tokens", "left out")
    terminal.table(columns, list(map(_entry_row, recall.entries)), numbers=("score", "trust", "tokens"))
    for failure in recall.failures:
        terminal.report("warning", failure)


def _entry_row(entry: RecallEntry) -> tuple[str, ...]:
    left_out = entry.cut or ""
    item = entry.item[:_SHORT] or "(erased)"
    return (
        item, entry.store, number(entry.score), number(entry.trust), entry.source, entry.user or "",
        str(entry.tokens), left_out,
    )  # fmt: skip
