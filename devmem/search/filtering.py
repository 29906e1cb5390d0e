"""Evaluation of a filter over the doc values; only metadata are asked of the database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from devmem.indexes.doc_values import DocValues
from devmem.indexes.row_column import Mask, Rows
from devmem.search.query import SCOPE_PARTS, Filter
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
    doc_values = source.indexes.doc_values
    in_scope = _all_of(_scope_masks(doc_values, where))
    rest = _all_of(_other_masks(doc_values, where, period))
    if in_scope is None and rest is None and not where.metadata:
        return FilterMatches()
    scope = doc_values.live if in_scope is None else in_scope & doc_values.live
    admitted = scope if rest is None else scope & rest
    if where.metadata:
        rows = source.rows_with_metadata(where.metadata, doc_values.rows(np.flatnonzero(admitted)))
        admitted = np.zeros(len(admitted), dtype=np.bool_)
        admitted[doc_values.positions(rows)] = True
    return FilterMatches(
        positions=admitted,
        passages=source.indexes.passage_map.all_passages_of(doc_values.rows(np.flatnonzero(admitted))),
        hidden=int(np.count_nonzero(scope)) - int(np.count_nonzero(admitted)),
    )


def _all_of(masks: Iterator[Mask]) -> Mask | None:
    found = next(masks, None)
    for mask in masks:
        found = mask if found is None else found & mask
    return found


def _scope_masks(doc_values: DocValues, where: Filter) -> Iterator[Mask]:
    for part in SCOPE_PARTS:
        value = getattr(where.scope, part)
        if value is not None:
            mask = doc_values.equal(part, value)
            yield mask | doc_values.equal(part, None) if where.or_unbound else mask
        if part in where.unbound:
            yield doc_values.equal(part, None)


def _other_masks(doc_values: DocValues, where: Filter, period: tuple[float, float] | None) -> Iterator[Mask]:
    after, before = [where.after], [where.before]
    if period is not None:
        after.append(period[0])
        before.append(period[1])
    for bound in after:
        if bound is not None:
            yield np.asarray(doc_values.column("time") >= bound)
    for bound in before:
        if bound is not None:
            yield np.asarray(doc_values.column("time") < bound)
    for name in ("source_kind", "source_name"):
        if (value := getattr(where, name)) is not None:
            yield doc_values.equal(name, value)
    if where.min_trust:
        yield np.asarray(doc_values.column("trust") >= where.min_trust)
