"""Any filter selects in a database what `Filter.admits` selects of a list, with indexes on its keys too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem import MemoryItem, Scope
from devmem.config import IndexConfig
from devmem.errors import FilterError
from devmem.storage import (
    Condition,
    Filter,
    Operator,
    SqliteCollection,
    above,
    contains,
    one_of,
)
from devmem.testing import ManualClock
from tests.collection_suite.agreement import FILTERS, ITEMS, NOW, check_agreement
from tests.generated import examples

INDEX = IndexConfig(metadata=("k", "a.b"))


@settings(max_examples=examples(20))
@given(items=ITEMS, filters=st.lists(FILTERS, min_size=1, max_size=3))
def test_a_database_agrees_with_admits(items: list[MemoryItem], filters: list[Filter]) -> None:
    """Counting, listing and searching select the same items, with indexes on the metadata and without."""
    clock = ManualClock(NOW - 1)
    collections = [SqliteCollection(clock=clock, index=index) for index in (None, INDEX)]
    for collection in collections:
        collection.add(items)
    # What expires now is still there to be left out.
    clock.advance(1)
    for where in filters:
        admitted = [item for item in items if where.admits(item, NOW)]
        for collection in collections:
            check_agreement(collection, items, where)
            for key in ("k", "a.b"):
                texts = {found for item in admitted if isinstance(found := item.metadata.get(key), str)}
                assert collection.values(f"metadata.{key}", where, prefix="a") == sorted(
                    text for text in texts if text.startswith("a")
                )
        assert collections[0].values("metadata.k", where) == collections[1].values("metadata.k", where)
    assert collections[0].values("metadata.k") == collections[1].values("metadata.k")
    for collection in collections:
        collection.close()


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (lambda: Filter(scope=Scope(user=5)), "scope.user"),  # type: ignore[arg-type]
        (lambda: Filter(scope_in={"usr": one_of("a")}), "scope_in"),
        (lambda: Filter(after="2024"), "after"),  # type: ignore[arg-type]
        (lambda: Filter(min_trust=True), "min_trust"),
        (lambda: Filter(metadata={"room": None}), "metadata['room']"),  # type: ignore[dict-item]
        (lambda: Filter(any_of=({},)), "any_of"),  # type: ignore[arg-type]
        (lambda: Filter(source_kind="flie"), "source_kind"),
        (lambda: Filter(scope_in={"user": contains("a")}), "scope_in['user']"),
        (lambda: Filter(any_of=tuple(Filter(metadata={"k": n}) for n in range(500))), "any_of"),
        (lambda: Condition(Operator.EXISTS, ("yes",)), "values"),
        (lambda: above(float("nan")), "values"),
        (lambda: one_of(*range(10_001)), "values"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(made: object, field: str) -> None:
    """The error names the field, before any database sees the value."""
    with pytest.raises(FilterError) as error:
        made()  # type: ignore[operator]
    assert error.value.field == field
    assert field in str(error.value)
