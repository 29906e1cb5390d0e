"""The ranking that DevAll (ChatDev 2) applies over all stores: age, length, and words shared with the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from devmem.model.results import Hit

_MONTH_HOURS = 720.0


def devall_score(text: str, query: str, age_hours: float) -> float:
    """Score from 0 to 1: 0.7 x time decay x length factor + 0.3 x share of the query's words in the text."""
    decay = max(0.1, 1 - age_hours / _MONTH_HOURS)
    length = 0.5 if len(text) < 20 else 0.8 if len(text) > 200 else 1.0
    asked, there = set(query.lower().split()), set(text.lower().split())
    overlap = len(asked & there) / len(asked) if asked else 0.0
    return 0.7 * decay * length + 0.3 * overlap


def rank_as_devall(found: Sequence[Sequence[Hit]], query: str, now: float) -> list[list[Hit]]:
    """Return each store's hits with DevAll's score in place of the store's own, best first; `now` in seconds."""
    return [
        sorted(
            (
                replace(hit, score=devall_score(hit.item.content_summary, query, (now - hit.item.created_at) / 3600))
                for hit in hits
            ),
            key=lambda hit: -hit.score,
        )
        for hits in found
    ]
