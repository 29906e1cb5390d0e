"""Transactions that run at the same time, are refused, or lose their connection: each is applied once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, Final
from unittest.mock import patch
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import devmem
from devmem.model.items import MemoryItem
from devmem.model.results import WriteStatus
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
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
