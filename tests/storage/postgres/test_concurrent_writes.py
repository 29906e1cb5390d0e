"""Transactions that run at the same time, are refused, or lose their connection: each is applied once and in turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from random import Random
from typing import Any, Final
from unittest.mock import patch
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import devmem
from devmem.errors import VersionConflictError
from devmem.model.items import MemoryItem, Provenance, SourceKind
from devmem.model.results import WriteStatus
from devmem.models.embedder import PassageEmbeddings
from devmem.storage import Filter, SearchQuery, starts_with
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.writing import PreparedItem, Unique
from devmem.testing import HashEmbedder
from tests.conftest import StartScript
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

_STORES = count()
FAULTS: Final = ("", "", "refused", "lost before", "lost after")
"""Fates of a COMMIT: none, refused by the server, or the connection is lost before or after it."""
batches = st.lists(st.permutations("abcd").map(lambda ids: ids[:3]), min_size=1, max_size=4)
faults = st.lists(st.sampled_from(FAULTS), max_size=6)


@contextmanager
def _failing() -> Iterator[Callable[[Sequence[str]], None]]:
    """Have the next commits of a thread fail: yield a function that takes the thread's faults."""
    planned = threading.local()
    execute = Connection.execute

    def failing(self: Connection, query: Any, *given: Any, **options: Any) -> Any:
        left: list[str] = getattr(planned, "faults", [])
        fault = left.pop(0) if query == "COMMIT" and left else ""
        if fault == "refused":
            raise psycopg.errors.SerializationFailure("could not serialize access")
        if fault == "lost before":
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        result = execute(self, query, *given, **options)
        if fault == "lost after":
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return result

    with patch.object(Connection, "execute", failing):
        yield lambda wanted: setattr(planned, "faults", list(wanted))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.tuples(batches, batches), failures=st.tuples(faults, faults))
def test_two_writers_of_the_same_items(
    postgres_server: PostgresServer,
    writes: tuple[list[list[str]], list[list[str]]],
    failures: tuple[list[str], list[str]],
) -> None:
    """In whatever order: each batch is there once and whole, and each writer's batches in their order."""
    both = threading.Barrier(2, timeout=60)
    with (
        closing(
            PostgresCollection(postgres_server.url(store=f"concurrent {next(_STORES)} {uuid4().hex[:8]}"))
        ) as store,
        _failing() as fail,
        ThreadPoolExecutor(2) as pool,
    ):

        def write(writer: int) -> None:
            both.wait()
            fail(failures[writer])
            for number, ids in enumerate(writes[writer]):
                outcomes = store.add([MemoryItem(id=each, content_summary=f"{writer} {number}") for each in ids])
                # What was written is reported as such, also where the answer came with another attempt.
                assert WriteStatus.DUPLICATE not in {each.status for each in outcomes}
            fail([])

        list(pool.map(write, range(2)))
        for name in "abcd":
            versions = [each.item.content_summary for each in store.history(name)]
            for writer in range(2):
                expected = [f"{writer} {number}" for number, ids in enumerate(writes[writer]) if name in ids]
                assert [text for text in versions if text.startswith(f"{writer} ")] == expected
            assert [item.content_summary for item in store.get([name])] == versions[-1:]


_KILLED = """
import os, sys
import devmem
from devmem.storage.postgres.tables import PostgresTables

insert = PostgresTables.insert

def dies(*given):
    insert(*given)
    os._exit(9)

PostgresTables.insert = dies
with devmem.open(sys.argv[1], embedding=None) as memory:
    memory.add([f"text number {n}" for n in range(300)])
"""


def test_a_list_is_stored_whole_or_not_at_all(store_url: str, start_script: StartScript) -> None:
    """Others see none of it or all, and a process that dies after the last row and before the commit leaves none."""
    texts = [f"text number {n}" for n in range(300)]
    with devmem.open(store_url, embedding=None) as memory, ThreadPoolExecutor(1) as pool:
        assert (start_script(_KILLED, store_url).wait(60), len(memory)) == (9, 0)
        done = threading.Event()
        with devmem.open(store_url, embedding=None) as other:

            def watch() -> set[int]:
                seen = {len(other)}
                while not done.is_set():
                    seen.add(len(other))
                return seen

            watched = pool.submit(watch)
            memory.add(texts)
            done.set()
            assert watched.result() <= {0, len(texts)}
        assert sorted(record.text for record in memory) == sorted(texts)


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


_WAITING = (
    "SELECT FROM pg_stat_activity WHERE application_name = 'devmem' AND wait_event_type = 'Lock' "
    "AND query LIKE 'WITH held%%'"
)


def test_a_deletion_beside_an_update_waits_for_it(store_url: str) -> None:
    """It would not see the version that the update writes, and leave it in place."""
    with (
        closing(PostgresCollection(store_url)) as store,
        closing(PostgresCollection(f"{store_url}&tenant=other")) as other,
        psycopg.connect(Location.parse(store_url).conninfo, autocommit=True) as administrator,
        ThreadPoolExecutor(1) as pool,
    ):
        store.add([MemoryItem(id="1", content_summary="tea")])
        deleted: list[Callable[[], int]] = []

        def update(connection: Connection) -> None:
            changed = MemoryItem(id="1", content_summary="milk")
            store._changes(store.database._tables(connection)).add([PreparedItem.of(changed)], Unique.ID, {}, None)
            deleted.append(pool.submit(store.delete, ids=["1"]).result)
            while not administrator.execute(_WAITING).rowcount:
                pass
            other.add([MemoryItem(id="1", content_summary="nobody waits for it")])

        store.database.transactions.write(update)
        assert deleted[0]() == 1
        assert store.count() == 0


EMBEDDER = HashEmbedder(dimension=16)
ITEMS, ROUNDS = 120, 20


def embed(store: PostgresCollection) -> None:
    """Embed what waits, as the queue of a store does."""
    for _ in range(3 * ROUNDS):
        made = {
            item.id: PassageEmbeddings(
                vectors=EMBEDDER.vector(item.content_summary).reshape(1, -1), content_hash=item.content_hash
            )
            for item in store.waiting(8)
        }
        store.set_embeddings(made)


def delete(store: PostgresCollection) -> None:
    chance = Random(1)
    for number in range(ROUNDS):
        ids = [str(chance.randrange(ITEMS)) for _ in range(3)]
        if number % 2:
            store.delete(ids=ids)
        else:
            store.erase(ids=ids)


def change(store: PostgresCollection) -> None:
    chance = Random(2)
    for number in range(ROUNDS):
        store.add([MemoryItem(id=str(chance.randrange(ITEMS)), content_summary=f"changed{number} tea")])


def test_what_is_deleted_while_it_is_embedded_leaves_nothing(store_url: str) -> None:
    def worked(work: Callable[[PostgresCollection], None]) -> None:
        with closing(PostgresCollection(store_url, model=EMBEDDER.identity)) as store:
            work(store)

    with closing(PostgresCollection(store_url, model=EMBEDDER.identity)) as reader:
        reader.add([MemoryItem(id=str(number), content_summary=f"word{number} tea") for number in range(ITEMS)])
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(worked, work) for work in (embed, delete, change)]:
                done.result()
        items = {item.id: item for item in reader.scan()}
        for query in (SearchQuery(text="tea", limit=ITEMS), SearchQuery(vector=EMBEDDER.vector("tea"), limit=ITEMS)):
            assert {hit.item.id for hit in reader.search(query)} <= items.keys()
        for item in items.values():
            if item.embedding is not None:
                assert item.embedding @ EMBEDDER.vector(item.content_summary) == pytest.approx(1, abs=1e-3)
        for table, owner, place in (("passages", "items", "row"), ("vectors", "passages", "passage")):
            number = f"one.passage >> {PASSAGE_BITS}" if place == "row" else "one.passage"
            orphans = (
                f"SELECT count(*) FROM {table} AS one WHERE store = %s AND NOT EXISTS (SELECT FROM {owner} AS owner "
                f"WHERE owner.store = one.store AND owner.{place} = {number})"
            )
            assert reader._fetch(orphans, [reader.database.store]) == [(0,)]
