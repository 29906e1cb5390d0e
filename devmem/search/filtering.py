"""Evaluation of a filter over the doc values in memory; only metadata are asked of the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from devmem.indexes.doc_values import DocValues
from devmem.indexes.index_set import IndexReader
from devmem.indexes.row_column import Mask, Rows
from devmem.search.conditions import Condition, Scalar
from devmem.search.filters import SCOPE_PARTS, Filter
from devmem.search.source import FilterMatches

MetadataLookup: TypeAlias = Callable[[Mapping[str, Scalar | Condition], Rows], Rows]
"""Returns those of some rows, each of which is there, whose metadata match; compared as by `Filter.admits`."""


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
        hidden=int(np.count_nonzero(scope)) - int(np.count_nonzero(admitted)),
    )


def _without_scope(doc_values: DocValues, rows_with_metadata: MetadataLookup, where: Filter, among: Mask) -> Mask:
    """Return which of some positions match all but the scope of a filter."""
    admitted = _all_of(among, _other_masks(doc_values, where))
    if where.metadata:
        rows = rows_with_metadata(where.metadata, doc_values.rows(np.flatnonzero(admitted)))
        admitted = np.zeros(len(admitted), dtype=np.bool_)
        admitted[doc_values.positions(rows)] = True
    if not where.any_of:
        return admitted
    parts = (_all_of(admitted, _scope_masks(doc_values, part)) for part in where.any_of)
    matching = [
        _without_scope(doc_values, rows_with_metadata, part, mask)
        for part, mask in zip(where.any_of, parts, strict=True)
    ]
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
