"""Selection of hits among scored candidates: without near-duplicates, and diverse where that is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import MemoryItem, Vector
from devmem.model.results import CandidateCut, CutCandidate, Hit
from devmem.ranking import ScoreBreakdown
from devmem.ranking.diversity import diversified, initials, sameness
from devmem.ranking.groups import group_starts
from devmem.search.candidates import CandidateSet
from devmem.search.context import Column, QueryContext
from devmem.search.late_interaction import MaxSimScorer
from devmem.search.readers import IndexesReader
from devmem.search.snippets import best_passages, snippet_of

_LEAST_READ: Final = 4
"""Minimum number of items that are read at once to replace near-duplicates."""
_DIVERSE_FROM: Final = 4
"""Factor by which more hits are found than are wanted when diverse ones are selected among them."""
_SHOWN: Final = 10
"""Maximum number of candidates beyond the limit that a report names."""


class HitSelector:
    """Selects hits among scored candidates."""

    def __init__(
        self,
        context: QueryContext,
        candidates: CandidateSet,
        scores: Column,
        breakdown: ScoreBreakdown | None,
        matches: MaxSimScorer | None,
    ) -> None:
        self._context, self._query, self._source = context, context.query, context.source
        self._candidates, self._scores, self._breakdown, self._matches = candidates, scores, breakdown, matches
        self._items: dict[int, MemoryItem] = {}
        self._selected: frozenset[int] = frozenset()
        self.cut: list[CutCandidate] = []
        """Candidates that were cut, and why, in the order of their scores."""
        # The newer item comes first among equals.
        order = np.lexsort((-candidates.rows, -scores))
        least = -np.inf if self._query.min_relevance is None else self._query.min_relevance
        self._is_relevant = scores >= least
        self._order = order[self._is_relevant[order]].tolist()
        self._irrelevant = order[~self._is_relevant[order]].tolist()

    def hits(self) -> list[Hit]:
        """Return the best hits, best first."""
        query, limit = self._query, self._query.limit
        diverse = query.weights is None and query.ranking.diversity > 0
        wanted = limit * _DIVERSE_FROM if diverse else limit
        chosen = self._select(self._order, wanted)
        if diverse:
            chosen = self._diverse(chosen, limit)
        self._selected = frozenset(chosen)
        return self._hits(chosen)

    def best_of_each(self, groups: Sequence[Sequence[int]], limit: int) -> list[list[Hit]]:
        """Return the best hits of each group of candidates, which are ordered best first."""
        relevant = [[at for at in places if self._is_relevant[at]] for places in groups]
        self._fetch([at for places in relevant for at in places[:limit]])
        return [self._best_of(places, limit) for places in relevant]

    def _best_of(self, places: Sequence[int], limit: int) -> list[Hit]:
        return self._hits(self._select(places, limit))

    def explain_rest(self) -> None:
        """Add the best candidates beyond the limit to `cut`."""
        known = {one.item_id for one in self.cut}
        first = self._order[: len(self._selected) + len(known) + _SHOWN]
        rest = [at for at in first if at not in self._selected]
        self._fetch(rest)
        left = [at for at in rest if self._item(at).id not in known]
        self.cut += [self._cut(at, CandidateCut.LIMIT) for at in left[:_SHOWN]]
        self._fetch(self._irrelevant[:_SHOWN])
        self.cut += [self._cut(at, CandidateCut.RELEVANCE) for at in self._irrelevant[:_SHOWN]]

    def _select(self, order: Sequence[int], wanted: int) -> list[int]:
        collapse = self._query.weights is None and self._query.ranking.collapse
        return self._without_duplicates(order, wanted) if collapse else list(order[:wanted])

    def _without_duplicates(self, order: Sequence[int], wanted: int) -> list[int]:
        chosen: list[int] = []
        duplicates = _NearDuplicates(self._item)
        read = 0
        while len(chosen) < wanted and read < len(order):
            part = order[read : read + max(wanted - len(chosen), _LEAST_READ if read else 0)]
            self._fetch(part)
            for at in part[: wanted - len(chosen)]:
                read += 1
                first = duplicates.first(at)
                if first == at:
                    chosen.append(at)
                else:
                    self.cut.append(self._cut(at, CandidateCut.NEAR_DUPLICATE, self._item(first).id))
        return chosen

    def _diverse(self, among: list[int], limit: int) -> list[int]:
        vectors = _vectors(self._context.indexes, self._candidates.rows[among])
        places = diversified(self._scores[among], vectors, limit, self._query.ranking.diversity)
        chosen = [among[place] for place in places]
        worst = min(self._scores[chosen], default=0.0)
        cut = [at for at in among if at not in chosen and self._scores[at] > worst]
        self.cut += [self._cut(at, CandidateCut.DIVERSITY) for at in cut]
        return chosen

    def _fetch(self, places: Sequence[int]) -> None:
        rows = [int(row) for row in self._candidates.rows[list(places)]]
        missing = [row for row in rows if row not in self._items]
        self._items |= self._source.items(missing)

    def _item(self, at: int) -> MemoryItem:
        row = int(self._candidates.rows[at])
        if row not in self._items:
            self._fetch([at])
        return self._items[row]

    def _hits(self, places: list[int]) -> list[Hit]:
        self._fetch(places)
        passages = best_passages(self._context, self._candidates.rows[places], self._matches)
        return [self._hit(at, passage) for at, passage in zip(places, passages.tolist(), strict=True)]

    def _hit(self, at: int, passage: int) -> Hit:
        breakdown, item = self._breakdown, self._item(at)
        snippet, field = snippet_of(item, passage)
        return Hit(
            item=item,
            score=float(self._scores[at]),
            similarity=_known(self._candidates.similarity[at]),
            lexical=float(self._candidates.lexical[at]),
            recency=float(breakdown.features.recency[at]) if breakdown else None,
            rerank=_known(breakdown.late_interaction[at]) if breakdown else None,
            parts=breakdown.parts(at) if breakdown else {},
            passage=snippet,
            field=field,
        )

    def _cut(self, at: int, reason: CandidateCut, like: str | None = None) -> CutCandidate:
        return CutCandidate(
            item_id=self._item(at).id,
            reason=reason,
            score=float(self._scores[at]),
            similarity=_known(self._candidates.similarity[at]),
            like=like,
        )


class _NearDuplicates:
    """Finds the first of several candidates that say the same.

    Only items whose words begin with the same letters are compared word by word, which takes time.
    """

    def __init__(self, item: Callable[[int], MemoryItem]) -> None:
        self._item = item
        self._by_initials: dict[str | None, int | None] = {}
        """The only candidate with these initials; None when there are more, which are in `_by_words`."""
        self._by_words: dict[object, int] = {}

    def first(self, at: int) -> int:
        """Return the first candidate that says the same, which may be this one."""
        letters = initials(self._item(at))
        if letters not in self._by_initials:
            self._by_initials[letters] = at
            return at
        if (other := self._by_initials[letters]) is not None:
            self._by_initials[letters] = None
            self._by_words[sameness(self._item(other))] = other
        return self._by_words.setdefault(sameness(self._item(at)), at)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _vectors(indexes: IndexesReader, rows: NDArray[np.int64]) -> Vector:
    """Return each row's first vector; zeros for a row that has none."""
    if indexes.vectors is None:
        return np.zeros((len(rows), 1), dtype=np.float32)
    passages, owner = indexes.passage_map.passages_of(rows)
    first = group_starts(owner)
    found = np.zeros((len(rows), indexes.vectors.dimension), dtype=np.float32)
    found[owner[first]] = indexes.vectors.gather(passages[first])
    return found
