"""A PostgreSQL store: processes write and search while their connections are killed and the server crashes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import psycopg

from devmem.collections.postgres.location import Location
from devmem.errors import CollectionBusyError
from devmem.model.results import Hit
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
_PAUSE: Final = 0.2
"""Seconds to wait for each writer's lines between two faults."""
_FAULTS_A_CRASH: Final = 10
"""Number of faults of which one is a crash of the server; the others kill connections."""
_ASKED_EVERY: Final = 50
"""Number of writes after which a writer searches for its last one."""
_ASKED_AT_END: Final = 30
_KILL: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'devmem' ORDER BY random() LIMIT 3"
)
_DONE: Final = "done"
"""File in the store's folder that ends the searchers."""


def run(plan: Plan) -> list[Result]:
    """Write from eight processes beside two that search, while faults come until all writes are done."""
    # It reports every connection that is killed.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    with closing(PostgresServer()) as server:
        return [_crashes(plan, server)]


def _crashes(plan: Plan, server: PostgresServer) -> Result:
    result = Result(fault="postgres: crashes")
    count = plan.extent(short=40, full=2000)
    url = server.url(store="tortured")
    folder = prepare_at(plan.folder / "postgres", "simple", url)
    with opened(folder):
        pass
    writers = [Child(_writer(folder, f"w{number}x", count)) for number in range(_WRITERS)]
    searchers = [Child(_searcher(folder, plan.random("searcher", number))) for number in range(_SEARCHERS)]
    result.tried = _inject(server, url, writers, count)
    lines = [line for writer in writers for line in writer.finish()]
    (folder / _DONE).touch()
    lines += [line for searcher in searchers for line in searcher.finish()]
    acknowledged = {line for line in lines if line.startswith("w")}
    for line in lines:
        if line.startswith("!"):
            result.fail("wrong", line)
    result.acknowledged = len(acknowledged)
    answered = sum(line.startswith(("w", "?")) for line in lines)
    if answered != _WRITERS * count or any(child.status for child in [*writers, *searchers]):
        result.fail("unrecovered", f"{answered} of {_WRITERS * count} writes were answered")
    with opened(folder) as store:
        check_items(store, acknowledged, result, "postgres")
        check_searches(store, "simple", acknowledged, plan.random("postgres"), result)
    return result


def _inject(server: PostgresServer, url: str, writers: Sequence[Child], count: int) -> int:
    """Kill connections, and crash and start the server now and then, until all is written; return how often."""
    conninfo, end = Location.parse(url).conninfo, time.monotonic() + _SECONDS
    faults = 0
    while time.monotonic() < end:
        for writer in writers:
            writer.wait_for_lines(count + 1, _PAUSE)
        if all(writer.ended for writer in writers):
            return faults
        faults += 1
        if faults % _FAULTS_A_CRASH == 0:
            server.kill()
            server.start()
            continue
        with psycopg.connect(conninfo, autocommit=True) as administrator:
            administrator.execute(_KILL)
    for writer in writers:
        writer.kill()
    return faults


def _writer(folder: Path, prefix: str, count: int) -> Callable[[Callable[[str], None]], None]:
    """Write items, and report each once it is acknowledged; now and then search for the last one."""

    def write(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            for number in range(count):
                try:
                    store.update(payload(f"{prefix}{number}"))
                except CollectionBusyError:
                    # Whether it is stored is not known, and the error says so.
                    send(f"? {prefix}{number}")
                    continue
                send(f"{prefix}{number}")
                if number % _ASKED_EVERY == 0 and not _finds(store, f"{prefix}{number}"):
                    send(f"! {prefix}{number} is not found by whoever wrote it")

    return write


def _searcher(folder: Path, chance: Random) -> Callable[[Callable[[str], None]], None]:
    """Search until all is written: what was found once is found again, and in the end all that is there is found."""

    def search(send: Callable[[str], None]) -> None:
        with opened(folder) as store:
            seen: set[str] = set()
            while not (folder / _DONE).exists():
                hits = _search(store, f"answer number {chance.randrange(2000)}", 50)
                names = [hit.item.id for hit in hits]
                if len(names) != len(set(names)):
                    send("! an item was found twice")
                seen.update(token for hit in hits[:3] for token in TOKEN.findall(hit.item.full_text())[:1])
                if not _finds(store, token := chance.choice(sorted(seen)) if seen else ""):
                    send(f"! {token} was found before and is not any more")
            there = sorted(tokens_of(store))
            for token in chance.sample(there, min(_ASKED_AT_END, len(there))):
                if not _finds(store, token):
                    send(f"! {token} is there and is not found by a process that lived through all faults")

    return search


def _finds(store: CollectionMemory, token: str) -> bool:
    return not token or any(token in hit.item.full_text() for hit in _search(store, token, 5))


def _search(store: CollectionMemory, text: str, top_k: int) -> list[Hit]:
    """Search, again where the server could not be reached for as long as a search waits."""
    while True:
        try:
            return list(store.search(MemoryQuery(text=text, top_k=top_k)))
        except CollectionBusyError:
            continue
