"""How a search came to its hits, for a person and for a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from devmem.cli.describe import date_text, hit_json, item_date, number
from devmem.cli.terminal import Terminal
from devmem.model.results import CutCandidate, Hit, SearchReport
from devmem.text.relations import EARLIEST, LATEST

_HIT_COLUMNS = ("#", "score", "similarity", "lexical", "recency", "rerank", "waiting", "why", "date", "id", "text")
_CUT_COLUMNS = ("score", "similarity", "id", "why it was left out")
_NUMBERS = ("#", "score", "similarity", "lexical", "recency", "rerank")


def show_report(terminal: Terminal, report: SearchReport) -> None:
    """Print a table of the hits with every signal, one of what was cut and why, and what the search did."""
    if report.hits:
        show_hits(terminal, report.hits, waiting_ids(report.hits))
    if report.cut:
        terminal.table(_CUT_COLUMNS, [_cut_row(one) for one in report.cut], numbers=_NUMBERS)
    terminal.print("; ".join(_told(report)), style="dim")
    if report.failure:
        terminal.report("warning", report.failure)


def show_hits(terminal: Terminal, hits: Sequence[Hit], waiting: AbstractSet[str]) -> None:
    """Print a table of hits with every signal, and whether each one's embedding is still to be made (`waiting_ids`)."""
    rows = [_hit_row(at, hit, hit.item.id in waiting) for at, hit in enumerate(hits, start=1)]
    terminal.table(_HIT_COLUMNS, rows, numbers=_NUMBERS)


def report_json(report: SearchReport) -> dict[str, Any]:
    """Give the report as plain data."""
    waiting = waiting_ids(report.hits)
    return {
        "hits": [explained_json(hit, waiting) for hit in report.hits],
        "cut": [
            {"id": one.item_id, "reason": one.reason.value, "score": one.score, "similarity": one.similarity}
            | ({"like": one.like} if one.like else {})
            for one in report.cut
        ],
        "candidates": report.candidates,
        "reranked": report.reranked,
        "filtered": report.filtered,
        "period": list(report.period) if report.period else None,
        "stage_ms": dict(report.stage_ms),
        "failure": report.failure or None,
    }


def found_json(hit: Hit, waiting: AbstractSet[str]) -> dict[str, Any]:
    """Give a hit, and whether its embedding is still to be made (`waiting_ids`)."""
    return {**hit_json(hit), "waiting": hit.item.id in waiting}


def explained_json(hit: Hit, waiting: AbstractSet[str]) -> dict[str, Any]:
    """Give what `found_json` gives, and what the score is the sum of."""
    return {**found_json(hit, waiting), "parts": dict(hit.parts)}


def waiting_ids(hits: Sequence[Hit]) -> set[str]:
    """Name the items whose embedding is still to be made."""
    # Only when the query has an embedding does a hit without a similarity tell of the item.
    by_meaning = any(hit.similarity is not None for hit in hits)
    return {hit.item.id for hit in hits if by_meaning and hit.similarity is None}


def _hit_row(at: int, hit: Hit, waiting: bool) -> list[str]:
    return [
        str(at),
        *(number(getattr(hit, name)) for name in _NUMBERS[1:]),
        "yes" if waiting else "",
        why(hit.parts),
        item_date(hit.item),
        hit.item.id,
        hit.item.content_summary if hit.passage is None else f"{hit.item.content_summary}\n… {hit.passage}",
    ]


def why(parts: Mapping[str, float]) -> str:
    """Name what was added to a score, the largest part first."""
    ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return " ".join(f"{name} {value:+.3f}" for name, value in ordered if abs(value) >= 0.0005)


def _cut_row(one: CutCandidate) -> list[str]:
    like = f" ({one.like})" if one.like else ""
    return [number(one.score), number(one.similarity), one.item_id, f"{one.reason.value}{like}"]


def period_text(start: float, end: float) -> str:
    """Write a time that a query names (seconds since the epoch), which may be open at one end."""
    if start <= EARLIEST.timestamp():
        return f"what was before {date_text(end)}"
    return f"{date_text(start)} and later" if end >= LATEST.timestamp() else f"{date_text(start)} to {date_text(end)}"


def _told(report: SearchReport) -> list[str]:
    told = [f"{report.candidates} candidates", f"{report.reranked} looked at again"]
    if report.filtered:
        told.append(f"{report.filtered} items left out by the filter")
    if report.period is not None:
        told.append(f"the query names {period_text(*report.period)}")
    return told + [f"{name} {ms:.1f} ms" for name, ms in report.stage_ms.items()]
