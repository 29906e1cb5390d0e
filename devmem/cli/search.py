"""`devmem search`: what a store finds for a query, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.base import MemoryBase, MemoryQuery, QueryEmbedding
from devmem.cli.describing import hit_json, item_date
from devmem.cli.filtering import After, Agent, Before, Conversation, User, Where, make_filter
from devmem.cli.inputs import well_formed
from devmem.cli.opening import AsJson, Session, StoreName, WorkflowFile, load, make, opened, why_empty
from devmem.cli.showing import hit_row
from devmem.cli.terminal import Terminal
from devmem.collections import Filter
from devmem.outcomes import Hit
from devmem.runtime import DEFAULT_SESSION

_SIGNALS = ("score", "similarity", "lexical", "recency", "rerank")
_EXPLAINED = ("#", *_SIGNALS, "waiting", "date", "id", "text")


def search(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for.")],
    top_k: Annotated[int, typer.Option("--top-k", "-k", min=1, max=10_000, help="At most so many items.")] = 5,
    threshold: Annotated[float, typer.Option(min=-1.0, max=1.0, help="Least similarity; -1 lets all in.")] = -1.0,
    explain: Annotated[bool, typer.Option("--explain", help="Show every signal that ranked the items.")] = False,
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

    `--explain` shows each hit's similarity (cosine), lexical score (BM25), recency and rerank score, as far as they
    apply, and whether its embedding is still to be made.

    Example: `devmem search configs/demo/team.yaml notes "Where is the offsite?" --session demo --explain`
    """
    terminal: Terminal = ctx.obj
    restriction = make_filter(
        where=where, after=after, before=before, user=user, agent=agent, conversation=conversation
    )
    workflow = load(terminal, file)
    if (reason := why_empty(make(workflow, store, session))) is not None:
        terminal.report("warning", reason)
        found: list[tuple[Hit, bool]] = []
    else:
        with opened(workflow, store, session) as memory:
            found = _search(memory, well_formed(query), top_k, threshold, restriction)
    if as_json:
        terminal.json([{**hit_json(hit), "waiting": waiting} for hit, waiting in found])
    elif not found:
        terminal.report("note", "nothing was found")
    elif explain:
        rows = [[str(at), *_cells(hit, waiting=waiting)] for at, (hit, waiting) in enumerate(found, start=1)]
        terminal.table(_EXPLAINED, rows, numbers=("#", *_SIGNALS))
    else:
        _list(terminal, [hit for hit, _ in found])


def _search(
    memory: MemoryBase, query: str, top_k: int, threshold: float, restriction: Filter
) -> list[tuple[Hit, bool]]:
    """Give the hits, each with whether its embedding is still to be made."""
    embedding = QueryEmbedding(query)
    asked = MemoryQuery(text=query, top_k=top_k, similarity_threshold=threshold, where=restriction, embedding=embedding)
    hits = memory.search(asked)
    # Only when the query has an embedding does a hit without a similarity tell of the item.
    by_meaning = any(hit.similarity is not None for hit in hits)
    return [(hit, by_meaning and hit.similarity is None) for hit in hits]


def _cells(hit: Hit, *, waiting: bool) -> list[str]:
    cells = dict(zip(_EXPLAINED[1:], hit_row(hit, _EXPLAINED[1:]), strict=True))
    return list((cells | {"waiting": "yes" if waiting else ""}).values())


def _list(terminal: Terminal, hits: list[Hit]) -> None:
    for at, hit in enumerate(hits, start=1):
        terminal.print(f"{at}. {hit.score:.3f}  {item_date(hit.item)}  {hit.item.id}", style="bold")
        for line in hit.item.content_summary.splitlines():
            terminal.print(f"   {line}")
