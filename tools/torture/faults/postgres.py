"""A PostgreSQL store: processes write and search while their connections are killed and the server crashes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import psycopg

from devmem.errors import CollectionBusyError
from devmem.model.results import Hit
from devmem.storage.postgres.location import Location
from devmem.stores import CollectionMemory, MemoryQuery
from tools.postgres_server import PostgresServer
from tools.torture.children import Child
from tools.torture.judge import TOKEN, check_items, check_searches, tokens_of
from tools.torture.results import Plan, Result
from tools.torture.stores import opened, payload, prepare_at

_SECONDS: Final = 1800.0
"""Longest time that all writes may take."""
_WRITERS: Final = 8
_SEARCHERS: Final = 2
"""Number of processes that search through all faults, each of which is judged again at the end."""
_POLL: Final = 0.02
_FAULTS_A_CRASH: Final = 10
"""Number of faults of which one is a crash of the server; the others kill connections."""
_ASKED_EVERY: Final = 50
"""Number of writes after which a writer searches for its last one."""
_ASKED_AT_END: Final = 100
_NEWEST_BYTES: Final = 2_000
"""Length of the end of the acknowledged tokens of which a searcher asks for one."""
_KILL: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'devmem' ORDER BY random() LIMIT 3"
)
_ACKNOWLEDGED: Final = "acknowledged"
"""File with a line for each token whose write was acknowledged, so that other processes look for it."""
_DONE: Final = "done"
"""File that ends the searchers."""

Send = Callable[[str], None]


def run(plan: Plan) -> list[Result]:
    """Write from eight processes beside two that search, while faults come until all writes are done."""
    # It reports every connection that is killed.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    with closing(PostgresServer()) as server:
        return [_crashes(plan, server)]


def _crashes(plan: Plan, server: PostgresServer) -> Result:
    result = Result(fault="postgres: crashes")
    count = plan.extent(short=40, full=2000)
    folders = _prepare(plan.folder, server)
    writers = [Child(_writer(folders[0], f"w{number}x", count)) for number in range(_WRITERS)]
    searchers = [Child(_searcher(folder, plan.random("searcher", folder.name))) for folder in folders]
    result.tried = _inject(server, writers, count, plan.extent(short=16, full=130))
    lines = [line for writer in writers for line in writer.finish()]
    (plan.folder / _DONE).touch()
    lines += [line for searcher in searchers for line in searcher.finish()]
    acknowledged = {line for line in lines if line.startswith("w")}
    result.acknowledged = len(acknowledged)
    for line in lines:
        if line.startswith("!"):
            result.fail("wrong", line)
    if len(acknowledged) != _WRITERS * count or any(child.status for child in [*writers, *searchers]):
        result.fail("unrecovered", f"{len(acknowledged)} of {_WRITERS * count} writes were acknowledged")
    for folder in folders:
        with opened(folder) as store:
            check_items(store, acknowledged, result, folder.name)
            check_searches(store, "simple", acknowledged, plan.random(folder.name), result)
    return result


def _prepare(folder: Path, server: PostgresServer) -> list[Path]:
    """Make the store, and a workflow for each process that searches it; return their folders."""
    (folder / _ACKNOWLEDGED).touch()
    url = server.url(store="tortured")
    folders = [prepare_at(folder / f"searcher{number}", "simple", url) for number in range(_SEARCHERS)]
    with opened(folders[0]):
        return folders


def _inject(server: PostgresServer, writers: Sequence[Child], count: int, apart: int) -> int:
    """Kill connections, and crash and start the server now and then, until all is written.

    Args:
        server: is killed.
        writers: send a line for each write.
        count: number of writes of each.
        apart: number of writes between two faults: counted, not timed, so that a busy machine gets on too.

    Returns:
        Number of faults.
    """
    conninfo, end = Location.parse(server.url()).conninfo, time.monotonic() + _SECONDS
    faults = written = 0
    while time.monotonic() < end:
        while (now := sum(len(writer.wait_for_lines(count + 1, _POLL)) for writer in writers)) < written + apart:
            if all(writer.ended for writer in writers) or time.monotonic() > end:
                break
        if all(writer.ended for writer in writers):
            return faults
        faults, written = faults + 1, now
        if faults % _FAULTS_A_CRASH == 0:
            server.kill()
            server.start()
            continue
        with psycopg.connect(conninfo, autocommit=True) as administrator:
            administrator.execute(_KILL)
    for writer in writers:
        writer.kill()
    return faults


def _writer(folder: Path, prefix: str, count: int) -> Callable[[Send], None]:
    """Write items, and report each once it is acknowledged; now and then search for the last one."""

    def write(send: Send) -> None:
        shared = os.open(folder.parent / _ACKNOWLEDGED, os.O_WRONLY | os.O_APPEND)
        with opened(folder) as store:
            for number in range(count):
                token = f"{prefix}{number}"
                _store(store, token)
                send(token)
                os.write(shared, f"{token}\n".encode())
                if number % _ASKED_EVERY == 0 and not _finds(store, token):
                    send(f"! {token} is not found by whoever wrote it")
        os.close(shared)

    return write


def _store(store: CollectionMemory, token: str) -> None:
    """Write an item; look for it where the error says that its fate is not known, or write it again."""
    while True:
        try:
            store.update(payload(token))
        except CollectionBusyError:
            if not _finds(store, token):
                continue
        return


def _searcher(folder: Path, chance: Random) -> Callable[[Send], None]:
    """Search until all is written: whatever anybody was acknowledged before a search has to be found by it."""

    def search(send: Send) -> None:
        with opened(folder) as store:
            while not (folder.parent / _DONE).exists():
                names = [hit.item.id for hit in _search(store, f"answer number {chance.randrange(2000)}", 50)]
                if len(names) != len(set(names)):
                    send(f"! {folder.name}: an item was found twice")
                token = _newly_acknowledged(folder.parent / _ACKNOWLEDGED, chance)
                if token is not None and not _finds(store, token):
                    send(f"! {folder.name}: {token} was acknowledged and is not found by another process")
            there = sorted(tokens_of(store))
            for token in chance.sample(there, min(_ASKED_AT_END, len(there))):
                if not _finds(store, token):
                    send(f"! {folder.name}: {token} is not found by a process that lived through all faults")

    return search


def _newly_acknowledged(file: Path, chance: Random) -> str | None:
    """Return one of the tokens that were acknowledged last; None where there is none yet."""
    with file.open("rb") as tokens:
        tokens.seek(max(0, file.stat().st_size - _NEWEST_BYTES))
        found = TOKEN.findall(tokens.read().decode().partition("\n")[2])
    return chance.choice(found) if found else None


def _finds(store: CollectionMemory, token: str) -> bool:
    return any(token in hit.item.full_text() for hit in _search(store, token, 5))


def _search(store: CollectionMemory, text: str, top_k: int) -> list[Hit]:
    """Search, again where the server could not be reached for as long as a search waits."""
    while True:
        try:
            return list(store.search(MemoryQuery(text=text, limit=top_k)))
        except CollectionBusyError:
            continue
