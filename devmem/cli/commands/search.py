"""`devmem search`: search a memory, and explain the ranking."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.filter_options import After, Agent, Before, Conversation, User, Where, make_filter
from devmem.cli.inputs import well_formed
from devmem.cli.search_output import show_groups, show_hits, show_report
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, StoreName, WorkflowFile, load, opened_if_written
from devmem.model.results import HitGroup, SearchReport
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase, MemoryQuery
from devmem.views import groups_json, hits_json, report_json


def search(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words or a question.")],
    top_k: Annotated[
        int,
        typer.Option(
            "--top-k", "-k", metavar="N", min=1, max=10_000, help="Maximum number of items, or of conversations."
        ),
    ] = 5,
    threshold: Annotated[float, typer.Option(metavar="X", min=-1.0, max=1.0, help="Least similarity (cosine).")] = -1.0,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show why each item was found, and what was left out.")
    ] = False,
    grouped: Annotated[bool, typer.Option("--by-conversation", help="Find conversations instead of items.")] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    user: User = None,
    agent: Agent = None,
    conversation: Conversation = None,
    where: Where = None,
    after: After = None,
    before: Before = None,
) -> None:
    """Search a memory.

    `--explain` shows each hit's similarity (cosine), lexical score (BM25), recency and rerank score, the contributions
    to its score, and the candidates that were left out and why.

    `--by-conversation` ranks conversations and lists the best items of each.

    Examples:
        devmem search configs/demo/team.yaml notes "Who gives the opening talk?" --session demo --explain
    """
    terminal: Terminal = ctx.obj
    restriction = make_filter(
        where=where, after=after, before=before, user=user, agent=agent, conversation=conversation
    )
    asked = MemoryQuery(text=well_formed(query), top_k=top_k, similarity_threshold=threshold, where=restriction)
    workflow = load(terminal, file)
    with opened_if_written(terminal, workflow, store, session) as memory:
        if grouped:
            groups = memory.search_conversations(asked) if memory else []
            _show_groups(terminal, groups, explain=explain, as_json=as_json)
        else:
            _show(terminal, _search(memory, asked, explain=explain), explain=explain, as_json=as_json)


def _search(memory: MemoryBase | None, asked: MemoryQuery, *, explain: bool) -> SearchReport:
    if memory is None:
        return SearchReport()
    return memory.explain(asked) if explain else SearchReport(hits=tuple(memory.search(asked)))


def _show(terminal: Terminal, report: SearchReport, *, explain: bool, as_json: bool) -> None:
    if as_json:
        terminal.json(report_json(report) if explain else hits_json(report.hits))
        return
    if not report.hits:
        terminal.report("note", "nothing was found")
    if explain:
        show_report(terminal, report)
    else:
        show_hits(terminal, report.hits)


def _show_groups(terminal: Terminal, groups: list[HitGroup], *, explain: bool, as_json: bool) -> None:
    if as_json:
        terminal.json(groups_json(groups, parts=explain))
        return
    if not groups:
        terminal.report("note", "nothing was found")
    show_groups(terminal, groups, explain=explain)
