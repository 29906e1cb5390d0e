"""Hits and search reports on a terminal: a list, with the text of each hit below its heading."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from devmem.cli.describe import contributions, item_date, number, period_text
from devmem.cli.terminal import Terminal
from devmem.model.results import CutCandidate, Hit, HitGroup, SearchReport
from devmem.views import GROUP_KEYS, SIGNALS, waiting_ids

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
        explain: whether to add every signal, and the contributions to the score on a line of their own.
        with_store: whether the heading names the store that found the hit.
        waiting: ids of the items whose embedding is still to be made; None takes those among the hits.
    """
    unembedded = waiting_ids(hits) if waiting is None else waiting
    for at, hit in enumerate(hits, start=1):
        store = f"{hit.store}  " if with_store else ""
        terminal.print(f"{at}. {hit.score:.3f}  {store}{item_date(hit.item)}  {hit.item.id}", style="bold")
        if explain:
            for line in _explained(hit, waiting=hit.item.id in unembedded):
                terminal.print(_INDENT + line, style="dim")
        for line in hit.item.content_summary.splitlines():
            terminal.print(_INDENT + line)
        if hit.passage is not None:
            terminal.print(f"{_INDENT}… {' '.join(hit.found().split())}", style="dim")


def _explained(hit: Hit, *, waiting: bool) -> Iterator[str]:
    signals = [f"{name} {number(value)}" for name in SIGNALS[1:] if (value := getattr(hit, name)) is not None]
    if waiting:
        signals.append("waiting for its embedding")
    if signals:
        yield ", ".join(signals)
    if why := contributions(hit.parts):
        yield f"why: {why}"


def show_report(terminal: Terminal, report: SearchReport) -> None:
    """Print the hits with every signal, the candidates that were cut and why, and the work of the search."""
    show_hits(terminal, report.hits, explain=True)
    if report.cut:
        terminal.print("left out:", style="bold")
    for candidate in report.cut:
        terminal.print(_INDENT + _cut_text(candidate))
    terminal.print("; ".join(_summary(report)), style="dim")
    if report.failure:
        terminal.report("warning", report.failure)


def _cut_text(candidate: CutCandidate) -> str:
    like = f" ({candidate.like})" if candidate.like else ""
    signals = {"score": candidate.score, "similarity": candidate.similarity}
    told = ", ".join(f"{name} {number(value)}" for name, value in signals.items() if value is not None)
    return f"{candidate.item_id}: {candidate.reason.value}{like}" + (f"; {told}" if told else "")


def _summary(report: SearchReport) -> Iterator[str]:
    yield "1 candidate" if report.candidates == 1 else f"{report.candidates:,} candidates"
    yield f"{report.reranked:,} reranked"
    if report.filtered:
        yield f"{report.filtered:,} items left out by the filter"
    if report.query_cut:
        yield f"{report.query_cut:,} characters at the end of the query were not searched for"
    if report.period is not None:
        yield f"the query names {period_text(*report.period)}"
    for name, ms in report.stage_ms.items():
        yield f"{name} {ms:.1f} ms"


def show_groups(terminal: Terminal, groups: Sequence[HitGroup], *, explain: bool) -> None:
    """Print conversations, best first, each with its best items."""
    waiting = waiting_ids(hit for group in groups for hit in group.hits)
    for group in groups:
        name = " / ".join(part for key in GROUP_KEYS if (part := getattr(group, key))) or "of no conversation"
        terminal.print(f"[{name}]  {group.score:.3f}", style="cyan")
        if explain:
            terminal.print(f"why: {contributions(group.parts) or 'the score of its best item'}", style="dim")
        show_hits(terminal, group.hits, explain=explain, waiting=waiting)
