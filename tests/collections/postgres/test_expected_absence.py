"""Writes that expect items not to be there, which they do not write themselves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from devmem.collections import Filter, starts_with
from devmem.collections.postgres.collection import PostgresCollection
from devmem.errors import VersionConflictError
from devmem.model.items import MemoryItem, Provenance, SourceKind

ROUNDS = 30


@pytest.mark.parametrize("others", [0, 100])
def test_of_two_that_expect_each_other_to_be_absent_one_is_stored(store_url: str, others: int) -> None:
    start = threading.Barrier(2, timeout=30)

    def write(collection: PostgresCollection, name: str, number: int) -> bool:
        pair = [f"{number} left", f"{number} right", *(f"{number} {other}" for other in range(others))]
        start.wait()
        try:
            collection.add([MemoryItem(id=f"{number} {name}", content_summary=name)], expected=dict.fromkeys(pair))
        except VersionConflictError:
            return False
        return True

    with (
        closing(PostgresCollection(store_url)) as left,
        closing(PostgresCollection(store_url)) as right,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(ROUNDS):
            one = pool.submit(write, left, "left", number)
            other = pool.submit(write, right, "right", number)
            assert one.result() is not other.result()


def test_of_two_that_the_filter_of_one_keeps_apart_one_is_stored(store_url: str) -> None:
    start = threading.Barrier(2, timeout=30)

    def write(collection: PostgresCollection, name: str, absent: str, number: int) -> bool:
        source = Provenance(kind=SourceKind.FILE, name=f"{number}{name}")
        item = MemoryItem(id=source.name, content_summary="text", provenance=source)
        where = Filter(source_name=starts_with(f"{number}{absent}"))
        start.wait()
        try:
            collection.add([item], expected={str(number): None}, absent=where)
        except VersionConflictError:
            return False
        return True

    with (
        closing(PostgresCollection(store_url)) as left,
        closing(PostgresCollection(store_url)) as right,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(ROUNDS):
            file = pool.submit(write, left, "", "/", number)
            below = pool.submit(write, right, "/below", "/below", number)
            assert file.result() is not below.result()
