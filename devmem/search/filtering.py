"""Evaluation of a filter over the doc values; only metadata are asked of the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from devmem.indexes.doc_values import DocValues
from devmem.indexes.row_column import Mask, Rows
from devmem.search.conditions import Condition
from devmem.search.filters import SCOPE_PARTS, Filter
from devmem.search.source import SearchSource


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilterMatches:
    """The items and passages that a filter admits; None admits all that are in the indexes, which none expired is."""

    positions: Mask | None = None
    """Whether each position of the doc values is admitted."""
    passages: Rows | None = None
    """The admitted passages, ascending."""
    hidden: int = 0
    """Number of items within the filter's scope that the rest of it does not admit."""


def apply_filter(source: SearchSource, where: Filter, period: tuple[float, float] | None) -> FilterMatches:
    """Return what a filter admits.

    Args:
        source: the database and its indexes.
        where: the filter.
        period: restricts the items to those of a time, from and until, in seconds since the epoch; None does not.
    """
    if period is None and where.everything():
        return FilterMatches()
    doc_values = source.indexes.doc_values
    scope = _all_of(doc_values.live, _scope_masks(doc_values, where))
    narrowed = scope if period is None else _all_of(scope, _time_masks(doc_values, *period))
    admitted = _without_scope(source, where, narrowed)
    return FilterMatches(
        positions=admitted,
        passages=source.indexes.passage_map.all_passages_of(doc_values.rows(np.flatnonzero(admitted))),
        hidden=int(np.count_nonzero(scope)) - int(np.count_nonzero(admitted)),
    )


def _without_scope(source: SearchSource, where: Filter, among: Mask) -> Mask:
    """Return which of some positions match all but the scope of a filter."""
    doc_values = source.indexes.doc_values
    admitted = _all_of(among, _other_masks(doc_values, where))
    if where.metadata:
        rows = source.rows_with_metadata(where.metadata, doc_values.rows(np.flatnonzero(admitted)))
        admitted = np.zeros(len(admitted), dtype=np.bool_)
        admitted[doc_values.positions(rows)] = True
    if not where.any_of:
        return admitted
    parts = (_all_of(admitted, _scope_masks(doc_values, part)) for part in where.any_of)
    matching = [_without_scope(source, part, mask) for part, mask in zip(where.any_of, parts, strict=True)]
    return np.asarray(np.logical_or.reduce(matching))


def _all_of(mask: Mask, masks: Iterator[Mask]) -> Mask:
    for each in masks:
        mask = mask & each
    return mask


def _scope_masks(doc_values: DocValues, where: Filter) -> Iterator[Mask]:
    for part in SCOPE_PARTS:
        value = getattr(where.scope, part)
        if value is not None:
            mask = doc_values.equal(part, value)
            yield mask | doc_values.equal(part, None) if where.or_unbound else mask
        if part in where.unbound:
            yield doc_values.equal(part, None)
        if part in where.scope_in:
            yield _matching(doc_values, part, where.scope_in[part])


def _other_masks(doc_values: DocValues, where: Filter) -> Iterator[Mask]:
    yield from _time_masks(doc_values, where.after, where.before)
    for name in ("source_kind", "source_name"):
        if (value := getattr(where, name)) is not None:
            yield _matching(doc_values, name, value)
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
