"""Following in the order of commits: rows become visible in another order than that of their numbers."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from devmem.model.items import MemoryItem
from devmem.search.indexes.doc_values import DocEntry
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Access, connect
from devmem.storage.postgres.follower import PostgresFollower
from devmem.storage.postgres.location import Location
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

WRITERS, EACH = 8, 100
SLOW_COMMITS = """
CREATE FUNCTION slow.pause() RETURNS trigger LANGUAGE plpgsql AS
    $$BEGIN PERFORM pg_sleep(random() * 0.01); RETURN NULL; END$$;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow.items_of_all
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow.pause();
"""


def test_no_row_is_missed_or_applied_twice(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres_server.url(schema="slow", store="notes", connections=str(WRITERS))
    with closing(PostgresCollection(url)) as collection:
        location = Location.parse(url)
        with psycopg.connect(location.conninfo, autocommit=True) as administrator:
            administrator.execute(SLOW_COMMITS)
        follower = PostgresFollower(str(location), collection._store, None)
        applied: Counter[int] = Counter()
        add_items = type(follower.indexes).add_items

        def counted(indexes: object, entries: list[DocEntry]) -> None:
            applied.update(entry.row for entry in entries)
            add_items(indexes, entries)  # type: ignore[arg-type]

        monkeypatch.setattr(type(follower.indexes), "add_items", counted)

        def write(writer: int) -> None:
            for n in range(EACH):
                collection.add([MemoryItem(id=f"{writer}/{n}", content_summary=f"note {writer} {n}")])

        polls, out_of_order = 0, 0
        with closing(connect(Access(location=location, durability="full", busy_timeout=30))) as connection:

            def follow() -> None:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                follower.follow(connection, time.time())
                connection.execute("COMMIT")

            follow()
            with ThreadPoolExecutor(WRITERS) as pool:
                writing = [pool.submit(write, writer) for writer in range(WRITERS)]
                while not all(each.done() for each in writing):
                    highest = max(applied, default=0)
                    before = set(applied)
                    follow()
                    polls += 1
                    out_of_order += sum(row < highest for row in applied if row not in before)
            for each in writing:
                each.result()
            follow()
            stored = [row for (row,) in connection.execute("SELECT row FROM items").fetchall()]
        assert polls > 10
        assert out_of_order > 0, "commits were in the order of the rows: the test shows nothing"
        assert applied == Counter(stored)
        assert len(stored) == WRITERS * EACH
        follower.close()
