"""Items, searches, versions, runs of a workflow, findings and receipts as JSON, and receipts as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote

from devmem.config.findings import Rule
from devmem.config.reading import WorkflowCheck
from devmem.errors import Finding, Level, NodeFailedError
from devmem.model.items import MemoryItem, dump_item, version_hash
from devmem.model.results import Hit, HitGroup, RejectedCandidate, SearchReport, StoreWrite, WriteOutcome
from devmem.model.versions import ItemDifference, ItemVersion
from devmem.storage.erasure import Residue
from devmem.storage.protocol import ExportRecord
from devmem.storage.recall_log import Recall
from devmem.text.display import number_of

if TYPE_CHECKING:
    # Named in signatures alone: hits are shown without the modules that run a workflow, or forget in one.
    from devmem.stores.erasing import ForgetReceipt
    from devmem.workflow.forgetting import WorkflowReceipt
    from devmem.workflow.graph import NodeResult, RunResult

JsonObject: TypeAlias = dict[str, Any]
"""An object that `json.dumps` writes unchanged."""
SIGNALS: Final = ("score", "similarity", "lexical", "recency", "rerank")
"""The signals of a hit, in the order in which they are shown."""
GROUP_KEYS: Final = ("conversation", "session", "agent", "user")
"""The parts of the scope that name a conversation, from the narrowest to the widest."""
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def item_json(item: MemoryItem) -> JsonObject:
    """Return an item without its embedding; keys without a value are left out.

    The keys are those of `dump_item`: `id`, `content_summary`, `metadata`, `timestamp` (when it was stored),
    `event_time`, `expires_at`, `input_snapshot`, `output_snapshot`, `scope`, `provenance`, `trust`, `content_hash`.
    Times are seconds since the epoch, UTC.
    """
    return {key: value for key, value in dump_item(item).items() if key != "embedding"}


def current_item_json(item: MemoryItem) -> JsonObject:
    """Return a stored item with its `version`, which a change that may replace this version only names."""
    return {**item_json(item), "version": version_hash(item)}


def hit_json(hit: Hit, *, waiting: bool | None = None, parts: bool = False) -> JsonObject:
    """Return a hit: `store`, `id`, `text`, `passage` and `field` (what was found), every signal, the rest of the item.

    A signal that does not apply is null.

    Args:
        hit: what a search returned.
        waiting: whether the item's embedding is pending (`waiting_ids`); None leaves the key out.
        parts: whether to add `parts`, the contributions to the score by name.
    """
    item = item_json(hit.item)
    form: JsonObject = {"store": hit.store, "id": item.pop("id"), "text": item.pop("content_summary")}
    if hit.passage is not None:
        form["passage"] = hit.passage
    if hit.field is not None:
        form["field"] = hit.field
    if hit.stale:
        form["stale"] = hit.stale
    form |= {name: getattr(hit, name) for name in SIGNALS} | item
    if waiting is not None:
        form["waiting"] = waiting
    if parts:
        form["parts"] = dict(hit.parts)
    return form


def hits_json(hits: Sequence[Hit], *, parts: bool = False) -> list[JsonObject]:
    """Return the hits of one search, best first, each with `waiting`; see `hit_json`."""
    waiting = waiting_ids(hits)
    return [hit_json(hit, waiting=hit.item.id in waiting, parts=parts) for hit in hits]


def groups_json(groups: Sequence[HitGroup], *, parts: bool = False) -> list[JsonObject]:
    """Return conversations, best first: `conversation`, `session`, `agent`, `user`, `score` and `hits`.

    With `parts`, each group and each hit has the contributions to its score.
    """
    waiting = waiting_ids(hit for group in groups for hit in group.hits)
    return [
        {
            **{key: getattr(group, key) for key in GROUP_KEYS},
            "score": group.score,
            **({"parts": dict(group.parts)} if parts else {}),
            "hits": [hit_json(hit, waiting=hit.item.id in waiting, parts=parts) for hit in group.hits],
        }
        for group in groups
    ]


def waiting_ids(hits: Iterable[Hit]) -> frozenset[str]:
    """Return the ids of the items among the hits whose embedding is pending; each store has its own model."""
    found = list(hits)
    # A hit without a similarity tells something about its item only if the query had an embedding, and was searched:
    # the latest items, which some stores return unasked, have no signal at all.
    by_meaning = {hit.store for hit in found if hit.similarity is not None}
    return frozenset(
        hit.item.id for hit in found if hit.store in by_meaning and hit.similarity is None and hit.lexical is not None
    )


def report_json(report: SearchReport) -> JsonObject:
    """Return what a search did.

    `hits` (with `waiting` and `parts`), `cut` (candidates that were left out and why), `candidates`, `reranked`,
    `filtered` (numbers of items), `query_cut` (characters of a query that is too long), `asked` (the sentences of
    the query that ask something, where its others count little, or null), `corrected` (misspelled words of the query,
    each with the one that was searched for), `period` (the time that the query names: two times in seconds, or null),
    `stage_ms` (milliseconds of each stage) and `failure` (what a reranker could not do, or null).
    """
    return {
        "hits": hits_json(report.hits, parts=True),
        "cut": [_cut_json(candidate) for candidate in report.cut],
        **{name: getattr(report, name) for name in ("candidates", "reranked", "filtered", "query_cut", "asked")},
        "corrected": dict(report.corrected),
        "period": list(report.period) if report.period else None,
        "stage_ms": dict(report.stage_ms),
        "failure": report.failure or None,
    }


def _cut_json(candidate: RejectedCandidate) -> JsonObject:
    form = asdict(candidate)
    like = form.pop("like")
    return {"id": form.pop("item_id"), **form, **({"like": like} if like else {})}


def version_json(version: ItemVersion) -> JsonObject:
    """Return the JSON form of a version: its item, the changes that began and ended it, and what it replaced."""
    ended = version.ended
    return {
        "item": item_json(version.item),
        "version": version_hash(version.item),
        "replaced": version.replaced,
        "began": asdict(version.began),
        "ended": None if ended is None else asdict(ended),
    }


def difference_json(found: ItemDifference) -> JsonObject:
    """Return the JSON form of a difference: the operation, and the item before and after it."""
    return {
        "id": found.item_id,
        "operation": found.operation.value,
        "before": None if found.before is None else item_json(found.before),
        "after": None if found.after is None else item_json(found.after),
    }


def run_json(text: str, result: RunResult) -> JsonObject:
    """Return one run: `input`, `answer`, `nodes`, `warnings`, `hidden`, `trace`, `usage` and `error`, which is null.

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
        "error": None,
    }


def recall_json(recall: Recall) -> JsonObject:
    """Return what an agent was shown at one step: `step`, `block`, `entries` (with `cut`, a reason or null), and more.

    `at` and `stored_at` are in seconds since the epoch.
    """
    form = asdict(recall)
    return {"step": form.pop("id"), **form, "stage": recall.stage.value}


def failed_run_json(text: str, error: NodeFailedError, message: str) -> JsonObject:
    """Return a run whose node failed: as `run_json`, without an answer, and with the `error`: `node`, `message`."""
    from devmem.workflow.graph import RunResult

    document = run_json(text, RunResult(nodes=error.nodes, output=""))
    return document | {"answer": None, "error": {"node": error.node, "message": message}}


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


def recalled_hits(node: NodeResult) -> list[tuple[Hit, list[str]]]:
    """Return the items that a node recalled, each once, with the names of the stages at which it was recalled."""
    found: dict[tuple[str, str], tuple[Hit, list[str]]] = {}
    for stage, result in node.recalled.items():
        for hit in result.hits:
            found.setdefault((hit.store, hit.item.id), (hit, []))[1].append(stage.value)
    return list(found.values())


def _write_json(write: StoreWrite) -> JsonObject:
    return {"store": write.store, **outcome_json(write.outcome)}


def outcome_json(outcome: WriteOutcome) -> JsonObject:
    """Return a write's `status`, `id` (null when nothing holds the content), `reason` and `waiting`."""
    return {
        "status": outcome.status.value,
        "id": outcome.item_id,
        "reason": outcome.reason,
        "waiting": outcome.waiting,
    }


def checks_json(checks: Sequence[WorkflowCheck]) -> JsonObject:
    """Return the outcome of checking workflows: `files` with their counts, and `findings`."""
    return {
        "files": [
            {"file": check.file, "valid": not check.count(Level.ERROR)}
            | {f"{level.value}s": check.count(level) for level in Level}
            for check in checks
        ],
        "findings": [asdict(finding) for check in checks for finding in check.findings],
    }


def checks_sarif(checks: Sequence[WorkflowCheck], version: str) -> JsonObject:
    """Return the findings as a SARIF log with one run; `version` is that of devmem."""
    findings = [finding for check in checks for finding in check.findings]
    rules = list(Rule)
    driver = {
        "name": "devmem",
        "version": version,
        "rules": [{"id": rule.value, "shortDescription": {"text": rule.description}} for rule in rules],
    }
    results = [_result(finding, [rule.value for rule in rules]) for finding in findings]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _result(finding: Finding, rules: Sequence[str]) -> JsonObject:
    place: JsonObject = {"artifactLocation": {"uri": _uri(finding.file)}}
    if finding.line is not None:
        place["region"] = {"startLine": finding.line}
    location: JsonObject = {"physicalLocation": place}
    if finding.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.path}]
    result: JsonObject = {"level": finding.level.value, "message": {"text": finding.message}, "locations": [location]}
    if finding.rule in rules:
        result |= {"ruleId": finding.rule, "ruleIndex": rules.index(finding.rule)}
    return result


def _uri(file: str) -> str:
    """Return a relative reference for a relative path, which services resolve against the repository's root."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def receipt_lines(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of a receipt; `total` is the number of items that the store has now."""
    done = "would be forgotten" if dry_run else "forgotten"
    derived = f", {len(receipt.derived):,} of them derived from others" if receipt.derived else ""
    yield f"{receipt.store}: {number_of(receipt.items, 'item')} {done}{derived}; {number_of(total, 'item')} now"
    if receipt.tombstones:
        yield f"kept out from now on: {number_of(receipt.tombstones, 'text')}; `devmem list --tombstones` lists them"
    yield from _place_lines(receipt.reached, receipt.residues)
    yield from _export_lines(receipt.exports)


def receipt_json(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> JsonObject:
    """Return the JSON form of a receipt; `total` is the number of items that the store has now."""
    return {**_part_json(receipt, dry_run=dry_run), "items": total, **_exports_json(receipt.exports)}


def _part_json(part: ForgetReceipt, *, dry_run: bool) -> JsonObject:
    return {
        "store": part.store,
        "would_forget" if dry_run else "forgotten": part.items,
        "derived": list(part.derived),
        **_reached_json(part),
        "tombstones": part.tombstones,
    }


def _reached_json(receipt: ForgetReceipt | WorkflowReceipt) -> JsonObject:
    left = [{"place": one.place, "reason": one.reason} for one in receipt.residues]
    return {"reached": list(receipt.reached), "not_reached": left}


def _exports_json(exports: Sequence[ExportRecord]) -> JsonObject:
    """Return the exports without the hashes, which say nothing to a reader."""
    hidden = ("scope", "ids", "salt")
    return {"exports": [{key: one for key, one in each.to_json().items() if key not in hidden} for each in exports]}


def workflow_receipt_lines(receipt: WorkflowReceipt, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of the receipt of a workflow."""
    done = "would be forgotten" if dry_run else "forgotten"
    yield f"{number_of(receipt.items, 'item')} of {len(receipt.stores)} stores {done}"
    for part in receipt.stores:
        derived = f", {len(part.derived):,} of them copied or derived" if part.derived else ""
        kept_out = f", {number_of(part.tombstones, 'text')} kept out from now on" if part.tombstones else ""
        yield f"{part.store}: {number_of(part.items, 'item')}{derived}{kept_out}"
        yield from _place_lines(part.reached, part.residues)
    if receipt.writes:
        yield f"{receipt.writes:,} writes that waited for a store {done}"
    if receipt.shown:
        yield f"{receipt.shown:,} parts of the log of what agents were shown {done}"
    yield from _place_lines(receipt.reached, receipt.residues)
    yield from _export_lines(receipt.exports)


def workflow_receipt_json(receipt: WorkflowReceipt, *, dry_run: bool = False) -> JsonObject:
    """Return the JSON form of the receipt of a workflow."""
    return {
        "would_forget" if dry_run else "forgotten": receipt.items,
        "writes": receipt.writes,
        "shown": receipt.shown,
        "stores": [_part_json(part, dry_run=dry_run) for part in receipt.stores],
        **_reached_json(receipt),
        **_exports_json(receipt.exports),
    }


def _place_lines(reached: Sequence[str], residues: Sequence[Residue]) -> Iterator[str]:
    yield from (f"  reached: {place}" for place in reached)
    yield from (f"  not reached: {left.place}: {left.reason}" for left in residues)


def _export_lines(exports: Sequence[ExportRecord]) -> Iterator[str]:
    for export in exports:
        made = datetime.fromtimestamp(export.made_at, UTC).astimezone()
        place = export.place or "standard output"
        yield f"  not reached: {place}: {export.kind} of {made:%Y-%m-%d %H:%M %Z}, which may hold some of it"
