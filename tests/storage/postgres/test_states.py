"""Values that a store keeps beside its items, in one database with them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Event

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.versions import StateTable

pytestmark = pytest.mark.postgres

NAMES = st.tuples(st.sampled_from(["a", "b"]), st.text(st.characters(exclude_categories=[]), max_size=3))
VALUES = st.one_of(st.none(), st.binary(max_size=8))


@pytest.fixture
def table(store_url: str) -> Iterator[StateTable]:
    with closing(PostgresCollection(store_url)) as collection:
        yield collection.states


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(writes=st.lists(st.dictionaries(NAMES, VALUES, max_size=4), max_size=5))
def test_values_are_what_was_written_last(table: StateTable, writes: list[dict[tuple[str, str], bytes | None]]) -> None:
    gone = {(kind, name): None for kind in "ab" for name in table.names(kind)}
    table.write(gone)
    wanted: dict[tuple[str, str], bytes | None] = {}
    for values in writes:
        assert table.write(values)
        wanted |= values
    there = {key: value for key, value in wanted.items() if value is not None}
    assert table.get(list(wanted)) == there
    for kind in "ab":
        of_kind = {name: value for (found, name), value in there.items() if found == kind}
        assert dict(table.scan(kind)) == of_kind
        assert table.names(kind) == sorted(of_kind)


def test_of_many_that_count_at_once_none_is_lost(table: StateTable) -> None:
    key = ("count", "")

    def add(_: int) -> None:
        while True:
            found = table.get([key]).get(key)
            if table.write({key: str(int(found or 0) + 1).encode()}, expected={key: found}):
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(40)))
    assert table.get([key]) == {key: b"40"}


def test_one_process_at_a_time_is_in_an_exclusive_block(store_url: str) -> None:
    entered = Event()
    with closing(PostgresCollection(store_url)) as one, closing(PostgresCollection(store_url)) as two:

        def enter() -> None:
            with two.states.exclusive("indexing"):
                entered.set()

        with ThreadPoolExecutor(1) as pool:
            with one.states.exclusive("indexing"), two.states.exclusive("something else"):
                waiting = pool.submit(enter)
                assert not entered.wait(0.2)
            waiting.result(timeout=30)
        assert entered.is_set()
