"""`devmem search`: what a store finds for a query, and why."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final

import typer

from devmem.cli.describe import item_date
from devmem.cli.explain_output import explained_json, found_json, report_json, show_hits, show_report, waiting_ids, why
from devmem.cli.filter_options import After, Agent, Before, Conversation, User, Where, make_filter
from devmem.cli.inputs import well_formed
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, StoreName, WorkflowFile, load, opened_if_written
from devmem.model.results import Hit, HitGroup, SearchReport
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase, MemoryQuery

_OF: Final = ("conversation", "session", "agent", "user")
"""What a conversation is named by."""


def search(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    top_k: Annotated[
        int, typer.Option("--top-k", "-k", min=1, max=10_000, help="At most so many items, or conversations.")
    ] = 5,
    threshold: Annotated[float, typer.Option(min=-1.0, max=1.0, help="Least similarity; -1 lets all in.")] = -1.0,
    explain: Annotated[bool, typer.Option("--explain", help="Show every signal that ranked what was found.")] = False,
    grouped: Annotated[bool, typer.Option("--by-conversation", help="Find conversations, not items.")] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    user: User = None,
    agent: Agent = None,
    conversation: Conversation = None,
    where: Where = None,
    after: After = None,
    before: Before = None,
) -> None:
    """Search one store, as an agent's attachment would.

    `--explain` shows each hit's similarity (cosine), lexical score (BM25), recency and rerank score, what each kind of
    evidence added to its score, whether its embedding is still to be made, and what was left out and why.

    `--by-conversation` ranks conversations by all that speaks for them and lists the best items of each; `--top-k` is
    the number of conversations then. With `--explain`, each says what its score is made of.

    Example: `devmem search configs/demo/team.yaml notes "Who gives the opening talk?" --session demo --explain`
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
    hits = list(report.hits)
    if as_json and explain:
        terminal.json(report_json(report))
        return
    if as_json:
        waiting = waiting_ids(hits)
        terminal.json([found_json(hit, waiting) for hit in hits])
        return
    if not hits:
        terminal.report("note", "nothing was found")
    if explain:
        show_report(terminal, report)
    else:
        _list(terminal, hits)


def _show_groups(terminal: Terminal, groups: list[HitGroup], *, explain: bool, as_json: bool) -> None:
    waiting = waiting_ids([hit for group in groups for hit in group.hits])
    if as_json:
        terminal.json([_group_json(group, waiting, explain=explain) for group in groups])
        return
    if not groups:
        terminal.report("note", "nothing was found")
    for group in groups:
        name = " / ".join(part for name in _OF if (part := getattr(group, name))) or "of no conversation"
        terminal.print(f"[{name}]  {group.score:.3f}", style="cyan")
        if explain:
            terminal.print(why(group.parts) or "the score of its best item", style="dim")
            show_hits(terminal, group.hits, waiting)
        else:
            _list(terminal, list(group.hits))


def _group_json(group: HitGroup, waiting: AbstractSet[str], *, explain: bool) -> dict[str, Any]:
    hit_json = explained_json if explain else found_json
    return {
        **{part: getattr(group, part) for part in _OF},
        "score": group.score,
        **({"parts": dict(group.parts)} if explain else {}),
        "hits": [hit_json(hit, waiting) for hit in group.hits],
    }


def _list(terminal: Terminal, hits: list[Hit]) -> None:
    for at, hit in enumerate(hits, start=1):
        terminal.print(f"{at}. {hit.score:.3f}  {item_date(hit.item)}  {hit.item.id}", style="bold")
        for line in hit.item.content_summary.splitlines():
            terminal.print(f"   {line}")
        if hit.passage is not None:
            terminal.print(f"   … {' '.join(hit.passage.split())}", style="dim")
