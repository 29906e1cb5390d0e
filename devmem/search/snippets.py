"""Snippets: the passage of an item that was found, where the summary does not have it, and the field that it is of."""

from __future__ import annotations

import numpy as np

from devmem.indexes.passages import named_passages
from devmem.indexes.row_column import Rows
from devmem.model.items import MemoryItem
from devmem.ranking import Weights, fuse
from devmem.ranking.groups import group_starts
from devmem.search.context import Places, QueryContext
from devmem.search.late_interaction import MaxSimScorer


def best_passages(context: QueryContext, rows: Rows, matches: MaxSimScorer | None) -> Places:
    """Return the place of each item's best passage among its own, from 0; -1 for an item of one passage.

    The best is that of late interaction, and without it the best by words and meaning.
    """
    found = np.full(len(rows), -1, dtype=np.int64)
    if context.indexes.passage_map.singles:
        return found
    passages, owner = context.indexes.passage_map.passages_of(rows)
    if len(passages) == len(rows):
        return found
    score = fuse(*context.signals(passages), Weights())
    if matches is not None:
        score += np.isin(passages, matches.passages(rows))
    order = np.lexsort((-score, owner))
    best = order[group_starts(owner[order])]
    first = group_starts(owner)
    found[owner[best]] = best - first
    found[owner[first][np.diff(np.append(first, len(owner))) == 1]] = -1
    return found


def snippet_of(item: MemoryItem, place: int) -> tuple[str | None, str | None]:
    """Return the text of a passage that the summary lacks, and the indexed field that the passage is of.

    The text is None when the summary has all of it, or the item has one passage (-1); the field when it is no field's.
    """
    if place < 0 and not item.indexed_fields:
        return None, None
    passages = named_passages(item)
    place = max(place, 0)
    if place not in range(len(passages)):
        return None, None
    found = passages[place]
    passage, summary = " ".join(found.text.split()), " ".join(item.content_summary.split())
    if passage in summary:
        return None, found.field
    # A passage may continue a summary that was cut.
    return passage.removeprefix(summary.removesuffix("…").rstrip()).lstrip(), found.field
