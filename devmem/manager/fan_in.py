"""Searching for what each of several senders said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from devmem.model.results import Hit
from devmem.stores import MemoryQuery

MAX_TURNS: Final = 8
"""Maximum number of turns that are searched for; of more, the last ones are."""
EARLIER_WEIGHT: Final = 0.9
"""Factor of the scores that a turn before the last gives; the last one's count in full."""


def turns_to_search(turns: Sequence[str]) -> list[str]:
    """Return the texts to search for, each once, the last said one last; one blank text when nothing was said."""
    said = [turn.strip() for turn in turns if turn.strip()]
    distinct = list(dict.fromkeys(reversed(said)))[:MAX_TURNS]
    return distinct[::-1] or [""]


def search_turns(
    queries: Sequence[MemoryQuery], top_k: int, search: Callable[[MemoryQuery], Sequence[Hit]]
) -> list[Hit]:
    """Search for each turn and return the best hits, best first.

    A store's scores are comparable between queries, so an item has the best score that a turn gives it, the last turn
    weighted at most.

    Args:
        queries: one for each turn, at least one, the last said one last.
        top_k: maximum number of hits.
        search: returns a store's hits for one query, best first.
    """
    last = list(search(queries[-1]))
    if len(queries) == 1:
        return last
    best = {hit.item.id: hit for hit in last}
    for query in queries[:-1]:
        for hit in search(query):
            # A score below 0, as a reranker may give, becomes no better by a weight below 1.
            score = hit.score * (EARLIER_WEIGHT if hit.score > 0 else 1 / EARLIER_WEIGHT)
            if hit.item.id not in best or score > best[hit.item.id].score:
                best[hit.item.id] = replace(hit, score=score)
    return sorted(best.values(), key=lambda hit: -hit.score)[:top_k]
