"""Items and hits as a person and as a program read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from devmem.model.items import MemoryItem, dump_item
from devmem.model.results import Hit, StoreWrite, WriteOutcome, WriteStatus
from devmem.runtime import NodeResult, RunResult


def date_text(seconds: float | None) -> str:
    """Write a time (seconds since the epoch) as a date and time in UTC; empty for None."""
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):  # outside of the years that a date can have
        return f"{seconds:g}"


def item_date(item: MemoryItem) -> str:
    """Give when what an item tells of happened, or else when it was stored."""
    return date_text(item.created_at if item.event_time is None else item.event_time)


def number(value: float | None) -> str:
    """Write a signal; empty when it does not apply."""
    return "" if value is None else f"{value:.3f}"


def item_json(item: MemoryItem) -> dict[str, Any]:
    """Give an item's JSON form without its embedding."""
    return {key: value for key, value in dump_item(item).items() if key != "embedding"}


def hit_json(hit: Hit) -> dict[str, Any]:
    """Give a hit: its item, its store and every signal."""
    signals = {name: getattr(hit, name) for name in ("score", "similarity", "lexical", "recency", "rerank")}
    item = item_json(hit.item)
    passage = {} if hit.passage is None else {"passage": hit.passage}
    return {"store": hit.store, "id": item.pop("id"), "text": item.pop("content_summary"), **passage, **signals, **item}


def outcome_json(write: StoreWrite) -> dict[str, Any]:
    """Give what a store did with a write."""
    outcome = write.outcome
    return {
        "store": write.store,
        "status": outcome.status.value,
        "id": outcome.item_id,
        "reason": outcome.reason,
        "waiting": outcome.waiting,
    }


def outcome_text(outcome: WriteOutcome) -> str:
    """Say what became of one write."""
    reason = f" ({outcome.reason})" if outcome.reason else ""
    named = f" {outcome.item_id}" if outcome.item_id and outcome.status is not WriteStatus.SKIPPED else ""
    return f"{outcome.status.value}{named}{reason}"


def recalled_hits(node: NodeResult) -> list[tuple[Hit, list[str]]]:
    """Give what a node recalled, each item once, with the stages at which it was."""
    found: dict[tuple[str, str], tuple[Hit, list[str]]] = {}
    for stage, result in node.recalled.items():
        for hit in result.hits:
            found.setdefault((hit.store, hit.item.id), (hit, []))[1].append(stage.value)
    return list(found.values())


def run_json(text: str, result: RunResult) -> dict[str, Any]:
    """Give what one run did."""
    return {
        "input": text,
        "answer": result.output,
        "nodes": [_node_json(node) for node in result.nodes],
        "warnings": list(result.warnings),
    }


def _node_json(node: NodeResult) -> dict[str, Any]:
    return {
        "node": node.node,
        "answer": node.text,
        "recalled": [{**hit_json(hit), "stages": stages} for hit, stages in recalled_hits(node)],
        "writes": [
            {**outcome_json(write), "stage": stage.value}
            for stage, result in node.written.items()
            for write in result.writes
        ],
        "failures": [str(failure) for failure in node.failures],
    }
