"""JSON form of a workflow's run: the answer, and what each node recalled and wrote."""

from __future__ import annotations

from dataclasses import asdict

from devmem.model.results import Hit, StoreWrite, WriteOutcome
from devmem.runtime import NodeResult, RunResult
from devmem.views.items import JsonObject, hit_json


def run_json(text: str, result: RunResult) -> JsonObject:
    """Return one run: `input`, `answer`, `nodes`, `warnings`, `hidden`, `trace` and `usage`.

    A node has `node`, `answer`, `recalled` (hits, each with its `stages`), `writes` (see `outcome_json`, each with its
    `store` and `stage`), `failures`, `tool_calls` and `usage`.
    """
    return {
        "input": text,
        "answer": result.output,
        "nodes": [_node_json(node) for node in result.nodes],
        "warnings": list(result.warnings),
        "hidden": dict(result.hidden),
        "trace": result.trace,
        "usage": asdict(result.usage),
    }


def outcome_json(outcome: WriteOutcome) -> JsonObject:
    """Return a write's `status`, `id` (null when nothing holds the content), `reason` and `waiting`."""
    return {
        "status": outcome.status.value,
        "id": outcome.item_id,
        "reason": outcome.reason,
        "waiting": outcome.waiting,
    }


def recalled_hits(node: NodeResult) -> list[tuple[Hit, list[str]]]:
    """Return the items that a node recalled, each once, with the names of the stages at which it was recalled."""
    found: dict[tuple[str, str], tuple[Hit, list[str]]] = {}
    for stage, result in node.recalled.items():
        for hit in result.hits:
            found.setdefault((hit.store, hit.item.id), (hit, []))[1].append(stage.value)
    return list(found.values())


def _node_json(node: NodeResult) -> JsonObject:
    return {
        "node": node.node,
        "answer": node.text,
        "recalled": [hit_json(hit) | {"stages": stages} for hit, stages in recalled_hits(node)],
        "writes": [
            _write_json(write) | {"stage": stage.value}
            for stage, result in node.written.items()
            for write in result.writes
        ],
        "failures": [str(failure) for failure in node.failures],
        "tool_calls": [asdict(call) for call in node.tool_calls],
        "usage": asdict(node.usage),
    }


def _write_json(write: StoreWrite) -> JsonObject:
    return {"store": write.store, **outcome_json(write.outcome)}
