"""`devmem log`: what agents said to each other, and which memories they received."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from devmem.cli.declaring import OptionGroup, argument, option
from devmem.cli.inputs import (
    Ids,
    Newest,
    Output,
    check_output,
    deliver,
    full_scope_id,
    pick,
    whole_id,
)
from devmem.cli.options import Selection
from devmem.cli.targets import (
    JsonTerminal,
    MemoryPlace,
    Session,
    StoreAddress,
    find_store,
    load,
)
from devmem.cli.terminal import Terminal, date_text, number, zoned
from devmem.errors import CommandError
from devmem.memory.memory import Memory
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.items import ANY, Scope
from devmem.recording.log import InteractionLog
from devmem.storage.pending import STATE_FILE
from devmem.storage.recall_log import RecallLog
from devmem.stores.memory import MemoryBase
from devmem.text.analysis import shorten
from devmem.text.files import replace_file
from devmem.views.diagrams import (
    SHOWN,
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


_SHORT: Final = 8
_STEPS: Final = 20
"""Number of the last steps that are listed by default."""
_BY_SUFFIX: Final = {".dot": FlowFormat.DOT, ".gv": FlowFormat.DOT, ".png": FlowFormat.PNG}


def log_of(memory: MemoryBase, name: str) -> InteractionLog:
    """Return the store as a log of interactions.

    Raises:
        CommandError: it is of a type that keeps none.
    """
    if not isinstance(memory, InteractionLog):
        raise CommandError(
            f"memory store {name!r} keeps no interactions; only a store of type `conversation` does; "
            "`devmem list` shows its items."
        )
    return memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture(OptionGroup):
    """A drawing of who sent what to whom, and the items that it shows."""

    drawing: Annotated[
        FlowFormat | None, option("Draw who sent what to whom; by default according to the suffix of FILE.", "--format")
    ] = None
    output: Output = None
    ids: Ids = None
    newest: Newest = None

    def is_wanted(self) -> bool:
        """Whether there is to be a drawing."""
        return self.drawing is not None or self.output is not None

    def draw(self, terminal: Terminal, place: StoreAddress, conversation: str | None, where: Filter) -> None:
        """Draw who sent what to whom, as the items of a store say."""
        output = self.output
        chosen = self.drawing or _BY_SUFFIX.get(output.suffix.lower() if output else "", FlowFormat.MERMAID)
        if chosen is FlowFormat.PNG and output is None and not terminal.as_json:
            raise CommandError("`--format png` needs a file: add --output FILE.png.")
        place.check_written("; nothing was written")
        check_output(place, output)
        with place.opened(looking=True) as source:
            if conversation is not None:
                where &= Filter(scope=Scope(conversation=full_scope_id(source, "conversation", conversation)))
            transfers = transfers_of(pick(source, self.ids, self.newest, where))
        edges = edges_of(transfers)
        if terminal.as_json:
            terminal.json(transfers)
        elif not transfers:
            raise CommandError(
                f"no matching item of memory store {place.store!r} records a message; nothing was drawn."
            )
        elif chosen is FlowFormat.PNG and output is not None:
            replace_file(output, [png_picture(edges)])
            terminal.report("note", f"written to {output}")
        elif chosen is FlowFormat.SEQUENCE:
            deliver(terminal, mermaid_sequence(transfers), output)
        else:
            deliver(terminal, dot_graph(edges) if chosen is FlowFormat.DOT else mermaid_flowchart(edges), output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(OptionGroup):
    """Steps of a workflow at which its agents were shown something."""

    shown: Annotated[bool, option("List the steps at which agents got memories.")] = False
    step: Annotated[int | None, option("Show what an agent was shown at this step.", metavar="N")] = None
    run: Annotated[str | None, option("With --shown: only steps of this run.", metavar="RUN")] = None
    node: Annotated[str | None, option("With --shown: only steps of this node.", metavar="ID")] = None

    def show(self, terminal: Terminal, memory: str, session: str, item: str | None, newest: int | None) -> None:
        """List the steps, or show one of them."""
        workflow = load(terminal, Path(memory))
        log = RecallLog(session_folder(workflow, session) / STATE_FILE)
        if not log.file.exists():
            advice = "run it again" if workflow.record_recalls else "add `record_recalls: true` to it and run it"
            raise CommandError(f"nothing is recorded of {memory} in {log.file}; {advice}.")
        if self.step is not None:
            _show_step(terminal, log, self.step)
            return
        runs = [one.run for one in log.runs(limit=10_000) if one.run] if self.run is not None else []
        run = None if self.run is None else whole_id("run", self.run, runs)
        item = None if item is None else whole_id("item", item, log.items(item))
        found = log.recalls(run=run, node=self.node, item=item, limit=newest or _STEPS)
        rows = [
            (str(one.id), date_text(one.at), (one.run or "")[:_SHORT], one.agent, one.stage.value, str(len(one.shown)),
             str(len(one.entries) - len(one.shown)), str(one.tokens), shorten(one.query or "", 60))
            for one in found
        ]  # fmt: skip
        columns = ("step", "time", "run", "agent", "stage", "shown", "left out", "tokens", "asked")
        terminal.rows(found, zoned(columns), rows, numbers=("step", "shown", "left out", "tokens"))


def log(
    terminal: JsonTerminal,
    memory: MemoryPlace,
    selection: Selection,
    picture: Picture,
    steps: Steps,
    words: Annotated[list[str] | None, argument("[STORE] [CONVERSATION]", "Id of a conversation.")] = None,
    trace: Annotated[str | None, option("Show the calls of this trace as a tree.", metavar="ID")] = None,
    full: Annotated[bool, option("Show long contents in full.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List conversations and traces, show or draw one, or show what agents were shown.

    A conversation is shown as a timeline: each line has the time, the sender and the receiver, and the text of a
    record. A trace is shown as a tree: each call is followed by the calls that were made from within it, and by its
    answer (`=`) or its error (`!`). A drawing takes the senders, receivers and causes from the items of any store that
    the conditions select; a picture (`png`) is drawn by Graphviz.

    `--shown` lists the most recent steps of a workflow with `record_recalls: true`, or those that found an item
    (`--id`); `--step` shows the block of one, and where each entry came from. Items erased since then are missing from
    the blocks.

    Examples:
        devmem log team.yaml global
        devmem log team.yaml global c1
        devmem log team.yaml global --trace t1
        devmem log configs/two_agents.yaml board --format sequence
        devmem log team.yaml --shown --id 5f2c9a
        devmem log team.yaml --step 12
    """
    ids, newest, draws = picture.ids, picture.newest, picture.is_wanted()
    if steps.shown or steps.step is not None:
        if draws or words or trace is not None or full or not selection.is_empty() or len(ids or ()) > 1:
            raise CommandError("--shown and --step can be combined only with --run, --node, --limit and one --id.")
        steps.show(terminal, memory, session, next(iter(ids or ()), None), newest)
        return
    if steps.run is not None or steps.node is not None:
        raise CommandError("--run and --node require --shown.")
    usage = "MEMORY [STORE] [CONVERSATION]"
    place = find_store(terminal, memory, words or (), session, most=1, usage=usage, reading=True)
    if not draws and (ids or newest is not None or not selection.is_empty()):
        raise CommandError("conditions, --id and --limit select what is drawn: add --format.")
    conversation = place.words[0] if place.words else None
    if trace is not None and (draws or conversation is not None):
        raise CommandError("--trace shows one trace: give neither a CONVERSATION nor a format with it.")
    if draws:
        picture.draw(terminal, place, conversation, selection.filter)
        return
    with place.opened_existing(looking=True) as store:
        if trace is None and conversation is None:
            _list(terminal, store)
        else:
            _show(terminal, store, trace, conversation, length=None if full else SHOWN)


def _show(
    terminal: Terminal,
    store: MemoryBase,
    trace: str | None,
    conversation: str | None,
    *,
    length: int | None,
) -> None:
    """Print a trace as a tree, or a conversation as a timeline."""
    kept = log_of(store, store.name)
    if trace is not None:
        records = kept.trace(full_scope_id(store, "trace", trace))
        lines, what = tree_lines(call_tree(records), length=length), f"trace {trace!r}"
    else:
        records = kept.log(full_scope_id(store, "conversation", conversation or ""))
        lines, what = timeline_lines(records, length=length), f"conversation {conversation!r}"
    if terminal.as_json:
        terminal.json([record.to_json() for record in records])
    elif not records:
        raise CommandError(f"nothing is recorded of {what}.")
    else:
        for line in lines:
            terminal.print(line)


def _list(terminal: Terminal, store: MemoryBase) -> None:
    """Print the conversations and traces of a store, those with the most records first."""
    log_of(store, store.name)
    whole = Memory(store)
    rows = [
        (kind, str(value), count)
        for kind in ("conversation", "trace")
        for value, count in whole.count(by=kind, user=ANY)
        if value is not None
    ]
    forms = [{"kind": kind, "id": value, "records": count} for kind, value, count in rows]
    shown = [(kind, value, f"{count:,}") for kind, value, count in rows]
    terminal.rows(forms, ("kind", "id", "records"), shown, numbers=("records",))


def _show_step(terminal: Terminal, log: RecallLog, step: int) -> None:
    recall = log.recall(step)
    if recall is None:
        raise CommandError(f"there is no step {step} in {log.file}; it may be older than the retention.")
    if terminal.as_json:
        terminal.json(recall)
        return
    budget = "" if recall.budget is None else f" of {recall.budget:,}"
    terminal.print(f"{recall.agent} at {recall.stage.value}, {date_text(recall.at)}, run {recall.run or '-'}")
    terminal.print(f"asked: {recall.query or '(not kept)'}")
    terminal.print(f"{recall.tokens:,}{budget} tokens")
    terminal.print()
    terminal.print(recall.block or ("(nothing)" if recall.block == "" else "(the text is not kept)"))
    terminal.print()
    columns = ("item", "store", "score", "trust", "origin", "user", "tokens", "left out")
    rows = [
        (one.item[:_SHORT] or "(erased)", one.store, number(one.score), number(one.trust), one.source, one.user or "",
         str(one.tokens), one.cut or "")
        for one in recall.entries
    ]  # fmt: skip
    terminal.table(columns, rows, numbers=("score", "trust", "tokens"))
    for failure in recall.failures:
        terminal.report("warning", failure)
