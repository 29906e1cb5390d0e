"""Writes that expect items not to be there, which they do not write themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from devmem.errors import VersionConflictError
from devmem.model.items import MemoryItem, Provenance, SourceKind
from devmem.storage import Filter, starts_with
from devmem.storage.postgres.collection import PostgresCollection

ROUNDS = 30


def check_that_one_is_stored(store_url: str, *writes: Callable[[PostgresCollection, int], object]) -> None:
    """Start two writes at once, each on a collection of its own, and check that one alone succeeds, in every round."""
    start = threading.Barrier(2, timeout=30)

    def stores(write: Callable[[PostgresCollection, int], object], collection: PostgresCollection, number: int) -> bool:
        start.wait()
        try:
            write(collection, number)
        except VersionConflictError:
            return False
        return True

    with (
        closing(PostgresCollection(store_url)) as left,
        closing(PostgresCollection(store_url)) as right,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(ROUNDS):
            one, other = (
                pool.submit(stores, write, collection, number)
                for write, collection in zip(writes, (left, right), strict=True)
            )
            assert one.result() is not other.result()


@pytest.mark.parametrize("others", [0, 100])
def test_of_two_that_expect_each_other_to_be_absent_one_is_stored(store_url: str, others: int) -> None:
    def write(collection: PostgresCollection, name: str, number: int) -> None:
        pair = [f"{number} left", f"{number} right", *(f"{number} {other}" for other in range(others))]
        collection.add([MemoryItem(id=f"{number} {name}", content_summary=name)], expected=dict.fromkeys(pair))

    check_that_one_is_stored(
        store_url,
        lambda collection, number: write(collection, "left", number),
        lambda collection, number: write(collection, "right", number),
    )


def test_of_two_that_the_filter_of_one_keeps_apart_one_is_stored(store_url: str) -> None:
    def write(collection: PostgresCollection, name: str, absent: str, number: int) -> None:
        source = Provenance(kind=SourceKind.FILE, name=f"{number}{name}")
        item = MemoryItem(id=source.name, content_summary="text", provenance=source)
        where = Filter(source_name=starts_with(f"{number}{absent}"))
        collection.add([item], expected={str(number): None}, absent=where)

    check_that_one_is_stored(
        store_url,
        lambda collection, number: write(collection, "", "/", number),
        lambda collection, number: write(collection, "/below", "/below", number),
    )
