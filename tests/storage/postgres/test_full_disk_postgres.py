"""A server whose disk is full: what was acknowledged stays, errors say what happened, and with room it goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest

import devmem
from devmem.errors import CollectionUnwritableError
from tools.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

MEGABYTES = 20


@contextmanager
def small_disk(server: PostgresServer, megabytes: int) -> Iterator[Path]:
    """Mount a small file system in a server's folder; it goes with the server."""
    disk = server.folder / "small"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    try:
        yield disk
    finally:
        if server.is_running:
            server.kill()
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server with a small disk for the database `tiny`; its log of commits is on another one."""
    with closing(PostgresServer()) as server, small_disk(server, MEGABYTES) as disk:
        make_database(server, disk / "tables")
        yield server


def make_database(server: PostgresServer, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    shutil.chown(folder, server.data.stat().st_uid)
    with closing(psycopg.connect(server.url(), autocommit=True)) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{folder}'".encode())
        connection.execute("CREATE DATABASE tiny TABLESPACE small")


def fill_up(memory: devmem.Memory) -> list[str]:
    """Add texts until the disk is full; return the ids of those that were acknowledged."""
    stored: list[str] = []
    try:
        for number in range(500):
            stored += memory.add([f"note {number} {at} " + os.urandom(200).hex() for at in range(20)])
    except CollectionUnwritableError as error:
        said = str(error)
    else:
        raise AssertionError("the disk is not full yet")
    assert "lacks resources" in said
    assert said.endswith("this write failed as a whole.")
    return stored


def test_what_was_acknowledged_stays_and_room_makes_it_go_on(server: PostgresServer) -> None:
    url = server.url("tiny", store="notes")
    filler = Path(server.folder / "small" / "filler")
    acknowledged: list[str] = []
    with devmem.open(url, embedding=None) as memory:
        acknowledged += memory.add([f"the first notes {number}" for number in range(50)])
        filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free - (1 << 20)))
        acknowledged += fill_up(memory)
        assert len(memory) == len(acknowledged)
        assert memory.get(acknowledged[-1]) is not None
        assert memory.search("first notes", limit=1)
        erased = 0
        try:
            erased = memory.forget(*acknowledged[:5]).items
        except CollectionUnwritableError:
            assert len(memory) == len(acknowledged)
        filler.unlink()
        assert memory.forget(*acknowledged[:5]).items == 5 - erased
        memory.add("with room again", id="last")
    with devmem.open(url, embedding=None) as memory:
        assert {record.id for record in memory} == {*acknowledged[5:], "last"}
        assert memory.search("with room again", limit=1)[0].text == "with room again"
