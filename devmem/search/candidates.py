"""Candidates: the items that share words or meaning with the query, and the turns around the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.model.conditions import Condition
from devmem.model.filters import SCOPE_PARTS, Filter, Wanted
from devmem.search.indexes.columns import Mask, Rows, group_starts
from devmem.search.indexes.doc_values import DocValues
from devmem.search.indexes.index_set import IndexReader
from devmem.search.query import Weights, fuse
from devmem.search.source import Column, FilterMatches, QueryContext
from devmem.text.cues import Cue, Side, asks_for_help, asks_for_latest, kinds_named, mentioned, side_of

_ITEMS: Final = 50
"""Distinct items to find at least, whatever the query's limit is."""
_WIDENING: Final = 8
"""Factor by which the passage limit grows until enough distinct items are found."""
_STANDING: Final = 20
"""Maximum number of instructions and preferences that become candidates too."""
_LATEST: Final = 20
"""Maximum number of the last records of a kind that become candidates too."""
_LOOKED_THROUGH: Final = 2000
"""Maximum number of records of that kind among which those with the named people are looked for."""
_EXPANDED: Final = 20
_REACH: Final = 2
"""Number of turns before and after each of the 20 best candidates that become candidates too."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CandidateSet:
    """Items with the signals of their best passages, arrays of shape (n,); rows ascend."""

    rows: Rows
    similarity: Column
    """Cosine; NaN for an item without embedding."""
    lexical: Column
    """BM25 score."""

    def where(self, keep: NDArray[np.bool_] | NDArray[np.int64]) -> CandidateSet:
        """Return the candidates at some places."""
        return CandidateSet(rows=self.rows[keep], similarity=self.similarity[keep], lexical=self.lexical[keep])

    def joined(self, others: CandidateSet) -> CandidateSet:
        """Return the union with candidates none of which is among these."""
        rows = np.concatenate([self.rows, others.rows])
        order = np.argsort(rows)
        return CandidateSet(
            rows=rows[order],
            similarity=np.concatenate([self.similarity, others.similarity])[order],
            lexical=np.concatenate([self.lexical, others.lexical])[order],
        )

    def fused(self, weights: Weights) -> Column:
        """Return one score from 0 to 1 for each, of both signals."""
        return fuse(self.similarity, self.lexical, weights)


NO_CANDIDATES: Final = CandidateSet(rows=np.empty(0, dtype=np.int64), similarity=np.empty(0), lexical=np.empty(0))


def find_candidates(context: QueryContext) -> CandidateSet:
    """Return the best items by words and the best by meaning, each with both signals."""
    by_words = _of_enough_items(context, context.words.top)
    by_meaning = _of_enough_items(context, context.nearest)
    rows = context.indexes.passage_map.rows_of(np.sort(np.concatenate([by_words, by_meaning])))
    return read_signals(context, rows[group_starts(rows)])


def _of_enough_items(context: QueryContext, best: Callable[[int], Rows]) -> Rows:
    """Return the best passages, with a wider limit when they are of too few items: one long item may have them all."""
    passage_map, query = context.indexes.passage_map, context.query
    limit = max(query.candidates, query.limit)
    wanted = max(query.limit, min(_ITEMS, limit))
    while True:
        passages = best(limit)
        if passage_map.singles or len(passages) < limit:
            return passages
        rows = passage_map.rows_of(np.sort(passages))
        if len(rows[group_starts(rows)]) >= wanted:
            return passages
        limit *= _WIDENING


def neighboring_turns(context: QueryContext, candidates: CandidateSet, scores: Column) -> CandidateSet:
    """Return the admitted turns around the best candidates that are no candidates themselves.

    An answer may share neither words nor meaning with the question that it follows. `scores` are the candidates'.
    """
    doc_values = context.indexes.doc_values
    best = np.argsort(-scores, kind="stable")[:_EXPANDED]
    around = np.concatenate(context.turns_around(doc_values.positions(candidates.rows[best]), _REACH))
    return read_signals(context, np.setdiff1d(doc_values.rows(around[around >= 0]), candidates.rows))


def standing_requests(context: QueryContext, candidates: CandidateSet) -> CandidateSet:
    """Return the instructions and preferences nearest to a query that asks for help, but for the candidates' own.

    They share its topic, and often no word: "always show types" and "write a function that ...".
    """
    indexes, query = context.indexes, context.query
    if query.vector is None or indexes.vectors is None or not asks_for_help(context.text):
        return NO_CANDIDATES
    doc_values = indexes.doc_values
    positions = doc_values.with_cues(Cue.INSTRUCTS | Cue.PREFERS, context.matches.positions)
    rows = doc_values.rows(positions[instructors(doc_values.strings("speaker", positions))])
    if not len(rows):
        return NO_CANDIDATES
    nearest, _ = indexes.vectors.nearest(query.vector, _STANDING, indexes.passage_map.all_passages_of(rows))
    found = np.unique(indexes.passage_map.rows_of(np.sort(nearest)))
    return read_signals(context, np.setdiff1d(found, candidates.rows))


def latest_records(context: QueryContext, candidates: CandidateSet) -> CandidateSet:
    """Return the last records of a kind, with whom the query names, where it asks for the last one of that kind.

    Without the candidates' own: many calls with one person read the same.
    """
    kinds = kinds_named(context.text) if asks_for_latest(context.text) else Cue.NONE
    if not kinds:
        return NO_CANDIDATES
    doc_values = context.indexes.doc_values
    positions = doc_values.last_with_cues(kinds, _LOOKED_THROUGH, context.matches.positions)
    positions = positions[shared_with_named(context.text, doc_values.strings("speaker", positions))][-_LATEST:]
    return read_signals(context, np.setdiff1d(doc_values.rows(positions), candidates.rows))


def shared_with_named(query: str, people: Sequence[str | None]) -> NDArray[np.bool_]:
    """Return which records are with somebody whom the query names; all where it names none of them.

    Args:
        query: the question.
        people: names of those with whom each record is, with commas between them.
    """
    names = {name for each in set(people) if each for name in each.split(", ")}
    folded = query.casefold()
    # "Wang" is the beginning of many names.
    named = {name for name in names if name.casefold() in folded} or mentioned(query, names)
    if not named:
        return np.ones(len(people), dtype=np.bool_)
    return np.array([bool(each) and not named.isdisjoint(str(each).split(", ")) for each in people], dtype=np.bool_)


def instructors(speakers: Sequence[str | None]) -> NDArray[np.bool_]:
    """Whether each speaker may instruct an assistant: its user, or nobody named; people who chat by name do not."""
    return np.array([not speaker or side_of(speaker) is Side.USER for speaker in speakers], dtype=np.bool_)


def read_signals(context: QueryContext, rows: Rows) -> CandidateSet:
    """Return items with both signals of their best passages; rows must ascend."""
    passages, owner = context.indexes.passage_map.passages_of(rows)
    similarity, lexical = context.signals(passages)
    starts = group_starts(owner)
    # `fmax` passes over NaN, which a passage without a vector has.
    return CandidateSet(
        rows=rows[owner[starts]],
        similarity=np.fmax.reduceat(similarity, starts) if len(starts) else similarity,
        lexical=np.maximum.reduceat(lexical, starts) if len(starts) else lexical,
    )


MetadataLookup: TypeAlias = Callable[[Mapping[str, Wanted], Rows], Rows]
"""Returns the rows, of existing ones, whose metadata match; compared as by `Filter.admits`."""


def filter_indexes(
    indexes: IndexReader, rows_with_metadata: MetadataLookup, where: Filter, period: tuple[float, float] | None
) -> FilterMatches:
    """Return what a filter admits of indexes in memory.

    Args:
        indexes: the indexes.
        rows_with_metadata: asks the database for what the indexes do not have.
        where: the filter.
        period: restricts the items to those of a time, from and until, in seconds since the epoch; None does not.
    """
    if period is None and where.everything():
        return FilterMatches()
    doc_values = indexes.doc_values
    scope = _all_of(doc_values.live, _scope_masks(doc_values, where))
    narrowed = scope if period is None else _all_of(scope, _time_masks(doc_values, *period))
    admitted = _without_scope(doc_values, rows_with_metadata, where, narrowed)
    return FilterMatches(
        positions=admitted,
        passages=indexes.passage_map.all_passages_of(doc_values.rows(np.flatnonzero(admitted))),
        filtered=int(np.count_nonzero(scope)) - int(np.count_nonzero(admitted)),
    )


def _without_scope(doc_values: DocValues, rows_with_metadata: MetadataLookup, where: Filter, among: Mask) -> Mask:
    """Return which of some positions match all but the scope of a filter."""
    admitted = _all_of(among, _other_masks(doc_values, where))
    if where.metadata:
        rows = rows_with_metadata(where.metadata, doc_values.rows(np.flatnonzero(admitted)))
        admitted = np.zeros(len(admitted), dtype=np.bool_)
        admitted[doc_values.positions(rows)] = True

    def matching(part: Filter, among: Mask) -> Mask:
        return _without_scope(doc_values, rows_with_metadata, part, _all_of(among, _scope_masks(doc_values, part)))

    for part in where.all_of:
        admitted = matching(part, admitted)
    if where.any_of:
        admitted = np.asarray(np.logical_or.reduce([matching(part, admitted) for part in where.any_of]))
    for part in where.none_of:
        admitted = admitted & ~matching(part, admitted)
    return admitted


def _all_of(mask: Mask, masks: Iterator[Mask]) -> Mask:
    for each in masks:
        mask = mask & each
    return mask


def _scope_masks(doc_values: DocValues, where: Filter) -> Iterator[Mask]:
    for part in SCOPE_PARTS:
        value = getattr(where.scope, part)
        if value is not None:
            mask = doc_values.equal(part, value)
            yield mask | doc_values.equal(part, None) if where.include_unscoped else mask
        if part in where.unbound:
            yield doc_values.equal(part, None)
        if part in where.scope_in:
            yield _matching(doc_values, part, where.scope_in[part])


def _other_masks(doc_values: DocValues, where: Filter) -> Iterator[Mask]:
    yield from _time_masks(doc_values, where.after, where.before)
    yield from (_matching(doc_values, each.name, wanted) for each, wanted in where.on_own_fields())
    if where.min_trust:
        yield np.asarray(doc_values.column("trust") >= where.min_trust)


def _time_masks(doc_values: DocValues, after: float | None, before: float | None) -> Iterator[Mask]:
    if after is not None:
        yield np.asarray(doc_values.column("time") >= after)
    if before is not None:
        yield np.asarray(doc_values.column("time") < before)


def _matching(doc_values: DocValues, name: str, wanted: str | Condition) -> Mask:
    if isinstance(wanted, Condition):
        return doc_values.matching(name, wanted.admits)
    return doc_values.equal(name, wanted)
