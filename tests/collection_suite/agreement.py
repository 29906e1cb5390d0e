"""Every filter admits in a collection what `Filter.admits` admits of a list."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devmem import Filter, MemoryItem, Scope
from devmem.errors import FilterError
from devmem.storage import (
    Collection,
    Condition,
    Operator,
    SearchQuery,
    above,
    absent,
    at_least,
    at_most,
    below,
    contains,
    contains_text,
    differs_from,
    one_of,
    present,
    starts_with,
)
from devmem.stores import Provenance, SourceKind
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import MODEL, OpenCollection, Opening, ids

NOW: Final = 50.0
_NAMES = st.sampled_from(["", "a", "ab", "abc", "b", "\ud7ff", "\U0010ffff", "键", "a\1", "a\1\1b", "a\\u0000b"])
_KEYS = st.sampled_from(["k", "a.b", "a", "b", "k.k", 'say "hi"', 'k.say "hi"', "a.b.k"])
_NUMBERS = st.sampled_from([-1, 0, 1, 1.0, 1.5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 1e300])
_TIME_TEXTS = st.sampled_from(
    [
        *("2024-02-29", "2023-02-29", "2024-02-29T23:59:59.999999+14:00", "2024-03-01T00:00Z", "2024-03-01 00:00:00.1"),
        *(
            "2024-02-31T00:00:00Z",
            "0000-01-01",
            "0001-01-01T00:00+14:00",
            "2024-03-01T24:00",
            "2024-03-01T00:00:00-00:30",
        ),
        *("2024-03-01T00:00:00.1234567", "2024-03-01  00:00", "now", "12:00", "2460000.5"),
        *("2024-12-31T23:59", "9999-12-31T23:59:59-14:59", "2024-13-01", "2024-04-31"),
        "2024-03-01T00:00:00-00:30",
    ]
)


def _is_bound(text: str) -> bool:
    try:
        Condition(Operator.AFTER, (text,))
    except FilterError:
        return False
    return True


_BOUNDS = _TIME_TEXTS.filter(_is_bound)
_SCALARS = _NAMES | _NUMBERS | st.booleans() | _TIME_TEXTS
_VALUES = st.recursive(
    _SCALARS | st.none() | st.lists(_SCALARS | st.lists(_SCALARS, max_size=1), max_size=2),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=2),
    max_leaves=3,
)


def _conditions(values: st.SearchStrategy[Any], ordered: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    ranges = [ordered.map(made) for made in (above, at_least, below, at_most)]
    return st.one_of(
        st.lists(values, max_size=3).map(lambda each: one_of(*each)),
        st.lists(values, max_size=3).map(lambda each: differs_from(*each)),
        _NAMES.map(starts_with),
        _NAMES.map(contains_text),
        st.sampled_from([present(), absent()]),
        *ranges,
    )


_ON_NAMES = _conditions(_NAMES, _NAMES)
_ON_METADATA = (
    _conditions(_SCALARS, _NAMES | _NUMBERS)
    | st.lists(_SCALARS, max_size=2).map(lambda each: contains(*each))
    | st.builds(Condition, st.sampled_from([Operator.AFTER, Operator.BEFORE]), _BOUNDS.map(lambda one: (one,)))
)
SCOPES = st.builds(Scope, user=st.none() | _NAMES, session=st.none() | _NAMES)
_TIMES = st.none() | st.sampled_from([1.0, 2.0, 3.0])
_METADATA = st.dictionaries(_KEYS, _SCALARS | _ON_METADATA | st.lists(_ON_METADATA, max_size=2).map(tuple), max_size=2)
_BASE = {
    "scope": SCOPES,
    "include_unscoped": st.booleans(),
    "unbound": st.sampled_from([(), (), ("user",), ("session", "user")]),
    "scope_in": st.dictionaries(st.sampled_from(["user", "session"]), _ON_NAMES, max_size=1),
    "after": _TIMES,
    "before": _TIMES,
    "source_kind": st.none()
    | st.sampled_from(["node", "user"])
    | st.just(differs_from("node", "file"))
    | _NAMES.map(at_least),
    "source_name": st.none() | _NAMES | _ON_NAMES,
    "min_trust": st.sampled_from([0.0, 0.5]),
    "metadata": st.dictionaries(
        _KEYS, _SCALARS | _ON_METADATA | st.lists(_ON_METADATA, max_size=2).map(tuple), max_size=2
    ),
}
FILTERS: Final = st.recursive(
    st.builds(Filter, **{name: st.just(getattr(Filter(), name)) | values for name, values in _BASE.items()}),
    lambda parts: (
        st.builds(
            Filter,
            any_of=st.lists(parts, max_size=3).map(tuple),
            all_of=st.lists(parts, max_size=2).map(tuple),
            none_of=st.lists(parts, max_size=2).map(tuple),
            scope=SCOPES,
            metadata=_METADATA,
        )
        | parts.map(lambda one: ~one)
        | st.tuples(parts, parts).map(lambda two: two[0] & two[1])
        | st.tuples(parts, parts).map(lambda two: two[0] | two[1])
    ),
    max_leaves=4,
)
ITEMS: Final = st.lists(
    st.builds(
        MemoryItem,
        content_summary=st.just("note"),
        metadata=st.dictionaries(_KEYS, _VALUES, max_size=2),
        scope=SCOPES,
        created_at=st.sampled_from([1.0, 2.0, 3.0]),
        event_time=_TIMES,
        expires_at=st.sampled_from([None, None, NOW, NOW + 1]),
        provenance=st.builds(Provenance, kind=st.sampled_from([SourceKind.NODE, SourceKind.USER]), name=_NAMES),
        trust=st.sampled_from([0.4, 0.5, 1.0]),
    ),
    min_size=1,
    max_size=8,
).map(lambda items: [replace(item, content_summary=f"note {n}", content_hash="") for n, item in enumerate(items)])


def check_agreement(collection: Collection, items: list[MemoryItem], where: Filter) -> None:
    """Listing, counting and searching select the same items of a collection that has these, at the time `NOW`."""
    wanted = [item.id for item in items if where.admits(item, NOW)]
    assert ids(list(collection.scan(where))) == wanted
    assert collection.count(where) == len(wanted)
    hits = collection.search(SearchQuery(text="note", where=where, limit=99))
    assert sorted(hit.item.id for hit in hits) == sorted(wanted)
    admitted = [item.metadata.get("k") for item in items if where.admits(item, NOW)]
    texts = {value for value in admitted if isinstance(value, str) and value.startswith("a")}
    assert collection.values("metadata.k", where, prefix="a") == sorted(texts)


_SHARED: Final = (HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
"""Checks of Hypothesis that do not apply: each example empties the place, and every collection runs this test."""


class Agreeing(Opening):
    """Filters of any form."""

    @settings(max_examples=15, suppress_health_check=_SHARED, deadline=None)
    @given(items=ITEMS, filters=st.lists(FILTERS, min_size=8, max_size=8))
    def test_any_filter(self, opened: OpenCollection, items: list[MemoryItem], filters: list[Filter]) -> None:
        """Every operator, nested in any way, compares as `Filter.admits` does."""
        clock = ManualClock(NOW - 1)
        collection = opened(model=MODEL, clock=clock)
        collection.clear()
        collection.add(items)
        # What expires now is still there to be left out.
        clock.now = NOW
        for where in filters:
            check_agreement(collection, items, where)
