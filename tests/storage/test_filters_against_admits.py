"""Any filter selects in a database what `Filter.admits` selects of a list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem.config import IndexConfig
from devmem.errors import FilterError
from devmem.model.items import MemoryItem, Provenance, Scope, SourceKind
from devmem.storage import (
    Condition,
    Filter,
    SearchQuery,
    SqliteCollection,
    above,
    at_least,
    at_most,
    below,
    differs_from,
    one_of,
    starts_with,
)

NOW = 50.0
INDEX = IndexConfig(metadata=("k", "a.b"))
NAMES = st.sampled_from(["", "a", "ab", "abc", "b", "\ud7ff", "\U0010ffff", "键"])
KEYS = st.sampled_from(["k", "a.b", 'say "hi"'])
NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2**53, 2**53 + 1, 2**63, -(2**70), 1e300, 10**400])
SCALARS = NAMES | NUMBERS | st.booleans()
VALUES = SCALARS | st.none() | st.lists(SCALARS, max_size=2) | st.dictionaries(KEYS, SCALARS, max_size=1)


def conditions(values: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    ranges = [ordered.map(made) for made in (above, at_least, below, at_most)]
    return st.one_of(
        st.lists(values, max_size=3).map(lambda each: one_of(*each)),
        values.map(differs_from),
        NAMES.map(starts_with),
        *ranges,
    )


ON_NAMES = conditions(NAMES, NAMES)
SCOPES = st.builds(Scope, user=st.none() | NAMES, session=st.none() | NAMES)
TIMES = st.none() | st.sampled_from([1.0, 2.0, 3.0])
BASE = {
    "scope": SCOPES,
    "include_unscoped": st.booleans(),
    "unbound": st.sampled_from([(), (), ("user",), ("session", "user")]),
    "scope_in": st.dictionaries(st.sampled_from(["user", "session"]), ON_NAMES, max_size=1),
    "after": TIMES,
    "before": TIMES,
    "source_kind": st.none() | st.sampled_from(["node", "user"]) | ON_NAMES,
    "source_name": st.none() | NAMES | ON_NAMES,
    "min_trust": st.sampled_from([0.0, 0.5]),
    "metadata": st.dictionaries(KEYS, SCALARS | conditions(SCALARS, NAMES | NUMBERS), max_size=2),
}
FILTERS = st.recursive(
    st.builds(Filter, **{name: st.just(getattr(Filter(), name)) | values for name, values in BASE.items()}),
    lambda parts: st.builds(
        Filter, any_of=st.lists(parts, max_size=3).map(tuple), scope=SCOPES, metadata=BASE["metadata"]
    ),
    max_leaves=4,
)
ITEMS = st.lists(
    st.builds(
        MemoryItem,
        content_summary=st.just("note"),
        metadata=st.dictionaries(KEYS, VALUES, max_size=2),
        scope=SCOPES,
        created_at=st.sampled_from([1.0, 2.0, 3.0]),
        event_time=TIMES,
        expires_at=st.sampled_from([None, None, NOW, NOW + 1]),
        provenance=st.builds(Provenance, kind=st.sampled_from([SourceKind.NODE, SourceKind.USER]), name=NAMES),
        trust=st.sampled_from([0.4, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=8,
).map(lambda items: [replace(item, content_summary=f"note {n}", content_hash="") for n, item in enumerate(items)])


@settings(max_examples=50)
@given(items=ITEMS, filters=st.lists(FILTERS, min_size=1, max_size=3))
def test_a_database_agrees_with_admits(items: list[MemoryItem], filters: list[Filter]) -> None:
    """Counting, listing and searching select the same items, with indexes on the metadata and without."""
    collections = [SqliteCollection(clock=lambda: NOW - 1, index=index) for index in (None, INDEX)]
    for collection in collections:
        collection.add(items)
        # What expires now is still there to be left out.
        collection._clock = lambda: NOW
    for where in filters:
        admitted = [item for item in items if where.admits(item, NOW)]
        wanted = [item.id for item in admitted]
        query = SearchQuery(text="note", where=where, limit=99)
        for collection in collections:
            assert [item.id for item in collection.scan(where)] == wanted
            assert collection.count(where) == len(wanted)
            assert sorted(hit.item.id for hit in collection.search(query)) == sorted(wanted)
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
        (lambda: Filter(scope_in={"user": "a"}), "scope_in['user']"),  # type: ignore[dict-item]
        (lambda: Filter(scope_in={"user": above(3)}), "scope_in['user']"),
        (lambda: Filter(after="2024"), "after"),  # type: ignore[arg-type]
        (lambda: Filter(before=float("nan")), "before"),
        (lambda: Filter(min_trust=True), "min_trust"),
        (lambda: Filter(source_name=5), "source_name"),  # type: ignore[arg-type]
        (lambda: Filter(source_kind=one_of(1)), "source_kind"),
        (lambda: Filter(metadata={"room": None}), "metadata['room']"),  # type: ignore[dict-item]
        (lambda: Filter(metadata={"room": ["a"]}), "metadata['room']"),  # type: ignore[dict-item]
        (lambda: Filter(unbound=("usr",)), "unbound"),
        (lambda: Filter(any_of=({},)), "any_of"),  # type: ignore[arg-type]
        (lambda: above(True), "values"),
        (lambda: above(float("nan")), "values"),
        (lambda: starts_with(5), "values"),  # type: ignore[arg-type]
        (lambda: one_of(*range(10_001)), "values"),
        (lambda: one_of(b"raw"), "values"),  # type: ignore[arg-type]
    ],
)
def test_a_filter_that_means_nothing_is_refused(made: object, field: str) -> None:
    """The error names the field, before any database sees the value."""
    with pytest.raises(FilterError) as error:
        made()  # type: ignore[operator]
    assert error.value.field == field
    assert field in str(error.value)
