"""`devmem search` and `context`: what a memory finds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from devmem.cli.declaring import option
from devmem.cli.options import VisibleSelection, report_hidden
from devmem.cli.targets import (
    NOW,
    AskedAtOption,
    JsonTerminal,
    ReadPlace,
    StateOptions,
    StoreAddress,
    Target,
    asked_at_of_option,
)
from devmem.cli.terminal import Terminal, contributions, item_date, number, period_text
from devmem.errors import CommandError
from devmem.model.caller import Caller
from devmem.text.analysis import shorten
from devmem.text.display import number_of

if TYPE_CHECKING:
    from devmem.model.results import Hit, HitGroup, SearchReport
    from devmem.stores.memory import MemoryBase

_INDENT = "   "


def show_hits(
    terminal: Terminal,
    hits: Sequence[Hit],
    *,
    explain: bool = False,
    with_store: bool = False,
    waiting: Collection[str] | None = None,
) -> None:
    """Print hits, best first: a heading, then the text below it.

    Args:
        terminal: where to print.
        hits: what a search returned.
        explain: whether to add every signal, and the contributions to the score on a separate line.
        with_store: whether the heading names the store that found the hit.
        waiting: ids of the items whose embedding is pending; None takes those among the hits.
    """
    from devmem.server.requests import SIGNALS, waiting_ids

    unembedded = waiting_ids(hits) if waiting is None else waiting
    for at, hit in enumerate(hits, start=1):
        store = f"{hit.store}  " if with_store else ""
        terminal.print(f"{at}. {hit.score:.3f}  {store}{item_date(hit.item)}  {hit.item.id}", style="bold")
        if explain:
            signals = [f"{name} {number(value)}" for name in SIGNALS if (value := getattr(hit, name)) is not None]
            signals += ["waiting for its embedding"] if hit.item.id in unembedded else []
            why = contributions(hit.parts)
            for line in filter(None, (", ".join(signals), why and f"why: {why}")):
                terminal.print(_INDENT + line, style="dim")
        for line in hit.item.content_summary.splitlines():
            terminal.print(_INDENT + line)
        if hit.passage is not None:
            terminal.print(f"{_INDENT}… {' '.join(hit.found().split())}", style="dim")


def show_report(terminal: Terminal, report: SearchReport) -> None:
    """Print the hits with every signal, the candidates that were cut and why, and the work of the search."""
    show_hits(terminal, report.hits, explain=True)
    if report.cut:
        terminal.print("left out:", style="bold")
    for candidate in report.cut:
        signals = {"score": candidate.score, "similarity": candidate.similarity}
        told = "".join(f"; {name} {number(value)}" for name, value in signals.items() if value is not None)
        like = f" ({candidate.like})" if candidate.like else ""
        terminal.print(f"{_INDENT}{candidate.item_id}: {candidate.reason.value}{like}{told}")
    terminal.print("; ".join(_summary(report)), style="dim")
    if report.failure:
        terminal.report("warning", report.failure)


def _summary(report: SearchReport) -> Iterator[str]:
    yield "1 candidate" if report.candidates == 1 else f"{report.candidates:,} candidates"
    yield f"{report.reranked:,} reranked"
    if report.filtered:
        yield f"{report.filtered:,} items left out by the filter"
    if report.query_cut:
        yield f"{report.query_cut:,} characters at the end of the query were not searched for"
    if report.asked is not None:
        yield f"what asks is {shorten(report.asked, 80)!r}, and the rest of the query counts little"
    for word, meant in report.corrected.items():
        yield f"{word!r} was taken for {meant!r}"
    if report.period is not None:
        yield f"the query names {period_text(*report.period)}"
    for name, ms in report.stage_ms.items():
        yield f"{name} {ms:.1f} ms"


def show_groups(terminal: Terminal, groups: Sequence[HitGroup], *, explain: bool) -> None:
    """Print conversations, best first, each with its best items."""
    from devmem.server.requests import waiting_ids

    waiting = waiting_ids(hit for group in groups for hit in group.hits)
    for group in groups:
        parts = (group.conversation, group.session, group.agent, group.user)
        name = " / ".join(part for part in parts if part) or "of no conversation"
        terminal.print(f"[{name}]  {group.score:.3f}", style="cyan")
        if explain:
            terminal.print(f"why: {contributions(group.parts) or 'the score of its best item'}", style="dim")
        show_hits(terminal, group.hits, explain=explain, waiting=waiting)


def search(
    terminal: JsonTerminal,
    place: Annotated[
        StoreAddress,
        Target(words="QUERY", about="Words or a question.", least=1, most=1, reading=True, embedding=True),
    ],
    selection: VisibleSelection,
    top_k: Annotated[
        int, option("Maximum number of items or conversations.", "--top-k", "-k", metavar="N", min=1, max=10_000)
    ] = 5,
    threshold: Annotated[float, option("Minimum similarity (cosine).", metavar="X", min=-1.0, max=1.0)] = -1.0,
    relevance: Annotated[
        float | None, option("Minimum score; 0.5 excludes most unrelated items.", "--min-relevance", metavar="X")
    ] = None,
    explain: Annotated[bool, option("Show why each item was found, and what was left out.")] = False,
    grouped: Annotated[bool, option("Find conversations instead of items.", "--by-conversation")] = False,
    asked_at: AskedAtOption = None,
    state: StateOptions = NOW,
) -> None:
    """Search a memory.

    `--explain` shows each hit's similarity (cosine), lexical score (BM25), recency and rerank score, the contributions
    to its score, and the candidates that were left out and why.

    `--by-conversation` ranks conversations and lists the best items of each. Without `--user`, only unscoped items are
    searched; `--all-users` searches every item.

    Examples:
        devmem search notes.db "When is the launch?"
        devmem search notes.db "launch" --where "metadata.priority>=3" --where 'metadata.room=[1, 2]'
        devmem search configs/demo/team.yaml notes "Who gives the opening talk?" --session demo --explain
    """
    from devmem.model.results import SearchReport
    from devmem.server.requests import ranked, waiting_ids
    from devmem.stores.memory import MemoryQuery

    query = MemoryQuery(
        text=place.words[0],
        limit=top_k,
        similarity_threshold=threshold,
        min_relevance=relevance,
        where=selection.visible,
        caller=Caller.of(selection.visible.scope),
        asked_at=asked_at_of_option(asked_at),
        explain=explain and not grouped,
    )
    with place.opened_if_written(state) as store:
        groups: list[HitGroup] = []
        report = SearchReport()
        if grouped:
            groups = store.search_conversations(query) if store is not None else []
            if terminal.as_json:
                waiting = waiting_ids(hit for group in groups for hit in group.hits)
                terminal.json(
                    [{**asdict(replace(each, hits=())), "hits": ranked(each.hits, waiting)} for each in groups]
                )
            else:
                show_groups(terminal, groups, explain=explain)
        else:
            report = store.search(query) if store is not None else SearchReport()
            if terminal.as_json:
                hits = ranked(report.hits)
                terminal.json({**asdict(replace(report, hits=())), "hits": hits} if explain else hits)
            elif explain:
                show_report(terminal, report)
            else:
                show_hits(terminal, report.hits)
        if not terminal.as_json and not (groups if grouped else report.hits):
            terminal.report("note", "nothing was found")
        if store is not None:
            report_hidden(terminal, store, selection.visible)
            _report_waiting(terminal, store)


def _report_waiting(terminal: Terminal, store: MemoryBase) -> None:
    """Report that items are found by their words alone, since their embedding is still pending."""
    from devmem.stores.collection_memory import CollectionMemory

    if not isinstance(store, CollectionMemory) or store.embedder is None:
        return
    if (waiting := store.info().waiting) and (waiting := waiting - len(store.collection.refusals())):
        terminal.report(
            "note",
            f"{number_of(waiting, 'item')}: embedding pending, searched by words alone; `devmem reindex` makes it",
        )


class _Language(StrEnum):
    EN = "en"
    ZH = "zh"


def context(
    terminal: JsonTerminal,
    place: ReadPlace,
    selection: VisibleSelection,
    max_tokens: Annotated[int, option("Estimated tokens of the text.", min=1, metavar="N")] = 2000,
    language: Annotated[_Language | None, option("Language of the sentences; the store's by default.")] = None,
) -> None:
    """Print what an agent may know of a conversation, for a prompt.

    Each record of a store of the type `conversation` is a sentence, the oldest first; `--agent` reads it, sees its own
    exchanges and is "you". The newest records stay within the tokens.

    Examples:
        devmem context team.yaml global --agent writer --conversation monday --max-tokens 500 --language zh
    """
    from devmem.recording.log import PromptContext

    where = selection.visible
    with place.opened_if_written() as found:
        if found is not None and not isinstance(found, PromptContext):
            raise CommandError(
                f"memory store {place.store!r} keeps no conversation; only a store of type `conversation` does."
            )
        text = ""
        if found is not None:
            text = found.context(
                agent=where.scope.agent,
                where=replace(where, scope=replace(where.scope, agent=None)),
                max_tokens=max_tokens,
                language=language.value if language else None,
            )
            report_hidden(terminal, found, where)
            if not text:
                terminal.report("note", "nothing is recorded")
    if text or terminal.as_json:
        terminal.answer({"store": place.store, "text": text}, text)
