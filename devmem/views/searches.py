"""JSON form of a search: its hits, the candidates that were cut, and conversations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from devmem.model.results import CutCandidate, Hit, HitGroup, SearchReport
from devmem.views.items import JsonObject, hit_json, waiting_ids

GROUP_KEYS: Final = ("conversation", "session", "agent", "user")
"""The parts of the scope that name a conversation, from the narrowest to the widest."""


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


def report_json(report: SearchReport) -> JsonObject:
    """Return what a search did.

    `hits` (with `waiting` and `parts`), `cut` (candidates that were left out and why), `candidates`, `reranked`,
    `filtered` (numbers of items), `query_cut` (characters of a query that is too long), `period` (the time that the
    query names: two times in seconds, or null), `stage_ms` (milliseconds of each stage) and `failure` (what a
    reranker could not do, or null).
    """
    return {
        "hits": hits_json(report.hits, parts=True),
        "cut": [_cut_json(candidate) for candidate in report.cut],
        "candidates": report.candidates,
        "reranked": report.reranked,
        "filtered": report.filtered,
        "query_cut": report.query_cut,
        "period": list(report.period) if report.period else None,
        "stage_ms": dict(report.stage_ms),
        "failure": report.failure or None,
    }


def _cut_json(candidate: CutCandidate) -> JsonObject:
    form: JsonObject = {
        "id": candidate.item_id,
        "reason": candidate.reason.value,
        "score": candidate.score,
        "similarity": candidate.similarity,
    }
    return form | ({"like": candidate.like} if candidate.like else {})
