"""`devmem search`: search a memory, and explain the ranking."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypeAlias

import typer

from devmem.cli.filter_options import Selection, report_hidden, selecting
from devmem.cli.inputs import well_formed
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.search_output import show_groups, show_hits, show_report
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, AsOf, Session, opened_if_written
from devmem.collections import Filter
from devmem.model.caller import Caller
from devmem.model.results import HitGroup, SearchReport
from devmem.recall import with_related
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase, MemoryQuery
from devmem.views import groups_json, hits_json, report_json

_TopK: TypeAlias = Annotated[
    int,
    typer.Option("--top-k", "-k", metavar="N", min=1, max=10_000, help="Maximum number of items, or of conversations."),
]
_Threshold: TypeAlias = Annotated[
    float, typer.Option(metavar="X", min=-1.0, max=1.0, help="Least similarity (cosine).")
]
_Relevance: TypeAlias = Annotated[
    float | None,
    typer.Option("--min-relevance", metavar="X", help="Least score; 0.5 leaves out most of what is unrelated."),
]
_Explain: TypeAlias = Annotated[
    bool, typer.Option("--explain", help="Show why each item was found, and what was left out.")
]


@selecting(by_user=True)
def search(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] QUERY", help="Words or a question.")],
    top_k: _TopK = 5,
    threshold: _Threshold = -1.0,
    relevance: _Relevance = None,
    explain: _Explain = False,
    grouped: Annotated[bool, typer.Option("--by-conversation", help="Find conversations instead of items.")] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    as_of: AsOf = None,
    *,
    selection: Selection,
) -> None:
    """Search a memory.

    `--explain` shows each hit's similarity (cosine), lexical score (BM25), recency and rerank score, the contributions
    to its score, and the candidates that were left out and why.

    `--by-conversation` ranks conversations and lists the best items of each.

    Without `--user`, only items that belong to nobody are searched; `--all-users` searches every item.

    Examples:
        devmem search notes.db "When is the launch?"
        devmem search team.yaml notes "launch" --user ann --explain
        devmem search notes.db "launch" --where "metadata.priority>=3" --where 'metadata.room=[1, 2]'
        devmem search configs/demo/team.yaml notes "Who gives the opening talk?" --session demo --explain
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] QUERY", reading=True)
    query = _query(place.words[0], top_k, threshold, relevance, selection.visible)
    with opened_if_written(terminal, place.workflow, place.store, session, as_of=as_of) as store:
        if grouped:
            _show_groups(terminal, store.search_conversations(query) if store else [], explain=explain, as_json=as_json)
        else:
            _show(terminal, _search(store, query, explain=explain), explain=explain, as_json=as_json)
        if store is not None:
            report_hidden(terminal, store, selection.visible)


def _query(text: str, top_k: int, threshold: float, relevance: float | None, where: Filter) -> MemoryQuery:
    return MemoryQuery(
        text=well_formed(text),
        top_k=top_k,
        similarity_threshold=threshold,
        min_relevance=relevance,
        where=where,
        caller=Caller.of(where.scope),
    )


def _search(store: MemoryBase | None, query: MemoryQuery, *, explain: bool) -> SearchReport:
    if store is None:
        return SearchReport()
    report = store.explain(query) if explain else SearchReport(hits=tuple(store.search(query)))
    return replace(report, hits=with_related(report.hits))


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
