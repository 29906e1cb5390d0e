"""`devmem shown`: the blocks of memories that agents received, as a workflow with `record_recalls` logs them."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.ids import whole_id
from devmem.cli.targets import AsJson, Session, WorkflowFile, load
from devmem.cli.terminal import Terminal, date_text, number, zoned
from devmem.model.caller import DEFAULT_SESSION
from devmem.storage.recall_log import FILE_NAME, Recall, RecallEntry, RecallLog
from devmem.text.analysis import shorten
from devmem.views.documents import recall_json
from devmem.workflow.stores import session_folder

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
    log = RecallLog(session_folder(workflow, session) / FILE_NAME)
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
