"""An open store shows its database also where that goes back in time: after a crash, a failover or a restore."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from devmem.model.items import MemoryItem
from devmem.storage import Collection, SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.location import Location
from devmem.storage.protocol import Durability
from devmem.testing import HashEmbedder
from tools.postgres_server import USER, PostgresServer

pytestmark = pytest.mark.postgres

EMBEDDER = HashEmbedder(dimension=16)

Scenario = Callable[[PostgresServer], Callable[[], None]]
"""Prepares something while the server runs, and returns what sets the database back."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that does not write its log by itself when much is waiting, so that a crash loses the last commits."""
    with closing(PostgresServer(settings={"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"})) as server:
        yield server


def connect(server: PostgresServer) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(Location.parse(server.url()).conninfo, autocommit=True)


def paused_log_writer(server: PostgresServer) -> int:
    """Pause the process that would write what nobody waited for, at some moment within ten seconds; return its id."""
    with connect(server) as administrator:
        query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'"
        ((pid,),) = administrator.execute(query).fetchall()
    assert isinstance(pid, int)
    os.kill(pid, signal.SIGSTOP)
    return pid


def crash_of_a_process(server: PostgresServer) -> Callable[[], None]:
    """Kill one process: PostgreSQL ends all others and recovers, without a new start of the server."""
    log_writer = paused_log_writer(server)

    def crash() -> None:
        with connect(server) as other:
            os.kill(log_writer, signal.SIGKILL)
            with pytest.raises(psycopg.OperationalError):
                # Waits until the server ends it.
                other.execute("SELECT pg_sleep(60)")

    return crash


def crash_of_the_server(server: PostgresServer) -> Callable[[], None]:
    log_writer = paused_log_writer(server)

    def crash() -> None:
        # A paused process would keep the server from ending at once.
        os.kill(log_writer, signal.SIGKILL)
        server.kill()
        server.start()

    return crash


def files_copied_back(server: PostgresServer) -> Callable[[], None]:
    """Copy the server's files while it is stopped, and put the copy back later."""
    copy = server.folder / "copy"
    server.stop()
    shutil.copytree(server.data, copy)
    server.start()

    def restore_version() -> None:
        server.stop()
        replace_data(server, copy)
        server.start()

    return restore_version


def standby_takes_over(server: PostgresServer) -> Callable[[], None]:
    """Make a standby that lacks the last transactions."""
    standby = server.folder / "standby"
    server.run("pg_basebackup", *server.connecting(), "--checkpoint=fast", "-X", "stream", "-D", str(standby))
    (standby / "standby.signal").touch()

    def promote() -> None:
        server.stop("immediate")
        replace_data(server, standby)
        server.start()
        with connect(server) as administrator:
            administrator.execute("SELECT pg_promote()")

    return promote


def replace_data(server: PostgresServer, data: Path) -> None:
    owner = server.data.stat()
    shutil.rmtree(server.data)
    data.rename(server.data)
    for file in [server.data, *server.data.rglob("*")]:
        shutil.chown(file, owner.st_uid, owner.st_gid)
    server.data.chmod(0o700)


def dump_in_a_new_server(server: PostgresServer) -> Callable[[], None]:
    """Restore a dump where transactions are numbered from the beginning."""
    with connect(server) as administrator:
        for _ in range(3000):
            administrator.execute("SELECT pg_current_xact_id()")
    dump = dumped(server)

    def restore() -> None:
        server.stop()
        server.initialize()
        server.start()
        server.run("pg_restore", *server.connecting(), "-d", USER, str(dump))

    return restore


def dump_in_place(server: PostgresServer) -> Callable[[], None]:
    """Restore a dump over the tables, while connections to them are open."""
    dump = dumped(server)

    def restore() -> None:
        with connect(server) as administrator:
            administrator.execute("DROP SCHEMA devmem CASCADE")
            administrator.execute("CREATE SCHEMA devmem")
        server.run("pg_restore", *server.connecting(), "-n", "devmem", "-d", USER, str(dump))

    return restore


def dumped(server: PostgresServer) -> Path:
    dump = server.folder / "dump"
    server.run("pg_dump", *server.connecting(), "-Fc", "-f", str(dump), USER)
    return dump


CRASHES: list[Scenario] = [crash_of_a_process, crash_of_the_server]
SCENARIOS = [*CRASHES, files_copied_back, standby_takes_over, dump_in_a_new_server, dump_in_place]


def items(kind: str, count: int) -> list[MemoryItem]:
    return [
        MemoryItem(id=f"{kind} {n}", content_summary=f"{kind}word note{n}", embedding=EMBEDDER.vector(f"{kind} {n}"))
        for n in range(count)
    ]


def add(collection: PostgresCollection, kind: str, count: int) -> None:
    """Add items in transactions of a hundred, and build the index of the vectors where that is due."""
    new = items(kind, count)
    for start in range(0, count, 100):
        collection.add(new[start : start + 100])
    collection.maintain()


def found(collection: Collection, word: str) -> list[str]:
    return sorted(hit.item.id for hit in collection.search(SearchQuery(text=word, limit=5000)))


def of_kind(names: Iterable[str], kind: str) -> list[str]:
    return sorted(name for name in names if name.startswith(kind))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_an_open_store_shows_what_the_database_has_now(server: PostgresServer, scenario: Scenario) -> None:
    """The last writes are lost, and others write with the same numbers before the store is searched again."""
    durability: Durability = "normal" if scenario in CRASHES else "full"
    url = server.url(store=scenario.__name__)

    def opened(durability: Durability = "full") -> closing[PostgresCollection]:
        return closing(PostgresCollection(url, model=EMBEDDER.identity, durability=durability))

    with opened() as first:
        add(first, "kept", 40)
    go_back = scenario(server)
    with opened(durability) as store:
        add(store, "lost", 1200)
        assert len(found(store, "lostword")) == 1200
        go_back()
        with opened() as writer:
            left = {item.id for item in writer.scan()}
            assert of_kind(left, "kept") == sorted(f"kept {n}" for n in range(40))
            assert len(left) < 1240
            add(writer, "new", 1500)
            there = {item.id for item in writer.scan()}
        for kind in ("kept", "lost", "new"):
            assert found(store, f"{kind}word") == of_kind(there, kind)
        for at in (0, 700, 1499):
            assert found(store, f"note{at}") == sorted(name for name in there if name.endswith(f" {at}"))
            (hit,) = store.search(SearchQuery(vector=EMBEDDER.vector(f"new {at}"), limit=1))
            assert hit.item.id == f"new {at}"
        add(store, "own", 3)
        with opened() as reader:
            for collection in (store, reader):
                assert found(collection, "ownword") == ["own 0", "own 1", "own 2"]
                assert found(collection, "keptword") == of_kind(there, "kept")
