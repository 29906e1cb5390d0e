"""Commits a second of several processes that write to PostgreSQL: to one store, or each to its own.

Each writer is a process of its own, which adds one memory after the other; a memory is on the server's disk when its
writer goes on. `without versions` is `history: none`, beside which what versions cost a write is seen.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Annotated, Final

import numpy as np
import typer

from devmem import MemoryItem, Scope
from devmem.models import ModelIdentity
from devmem.storage import PreparedItem
from devmem.storage.postgres.collection import PostgresCollection
from tools.bench.places import SERVER_SETTINGS
from tools.bench.rows import JsonFile, Row, ServerUrl, report
from tools.bench.synthetic import make_corpus
from tools.postgres_server import PostgresServer

_MODEL: Final = ModelIdentity(name="bench:precomputed", dimension=384)
_KINDS: Final = {"insert": True, "replace": True, "without_versions": False}
"""Kinds of writes, and whether versions are kept: new memories, or the same few again and again."""
_REPLACED: Final = 20
"""Number of memories of a writer that are replaced in turns."""
_WARM: Final = 5
"""Number of writes of each before it is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes of one process."""

    url: str
    number: int
    count: int
    kind: str


@dataclass(frozen=True, slots=True)
class Written:
    """Times of one process: in seconds since the epoch, and in milliseconds for each write."""

    began: float
    ended: float
    each: list[float]


_start: Barrier | None = None


def command(
    writers: Annotated[str, typer.Option("--writers", help="Numbers of processes, as in 1,8.")] = "1,8",
    count: Annotated[int, typer.Option("--count", min=1, help="Number of writes of each process.")] = 500,
    url: ServerUrl = None,
    json_file: JsonFile = None,
) -> None:
    """Measure commits a second in PostgreSQL: to one store and to several, with versions and without."""
    try:
        wanted = sorted({int(part) for part in writers.split(",")})
    except ValueError:
        wanted = [0]
    if wanted[0] < 1:
        raise typer.BadParameter("--writers takes numbers of processes, each at least 1, as in 1,8")
    report(list(run(wanted, count, url)), json_file)


def run(writers: list[int], count: int, url: str | None = None) -> Iterator[Row]:
    """Measure each number of writers; `url` is a PostgreSQL database, None starts a server."""
    with ExitStack() as stack:
        if url is None:
            server = PostgresServer(durable=True, settings=SERVER_SETTINGS)
            stack.callback(server.close)
            url = server.url()
        for number in writers:
            for kind in _KINDS:
                for places in ("one_store", "own_stores") if number > 1 else ("one_store",):
                    yield from _measure(url, number, count, kind, places)


def _measure(url: str, number: int, count: int, kind: str, places: str) -> Iterator[Row]:
    stores = [f"{places}+{kind}+{number}+{0 if places == 'one_store' else each}" for each in range(number)]
    joint = "&" if "?" in url else "?"
    wanted = [
        Writer(url=f"{url}{joint}store=commits+{store}", number=each, count=count, kind=kind)
        for each, store in enumerate(stores)
    ]
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(number)
    with ProcessPoolExecutor(number, mp_context=context, initializer=_begin, initargs=(barrier,)) as pool:
        done = list(pool.map(_write, wanted))
    seconds = max(each.ended for each in done) - min(each.began for each in done)
    times = [one for each in done for one in each.each]
    figures = {
        "commits_per_s": (number * count / seconds, "1/s"),
        "write_p50": (float(np.percentile(times, 50)), "ms"),
        "write_p99": (float(np.percentile(times, 99)), "ms"),
    }
    for metric, (value, unit) in figures.items():
        yield Row(bench="commits", case=f"{kind}:{places}:{number}", metric=metric, value=value, unit=unit)


def _begin(barrier: Barrier) -> None:
    global _start
    _start = barrier


def _write(writer: Writer) -> Written:
    """Add memories, from the moment when all processes are ready."""
    assert _start is not None
    corpus = make_corpus(writer.count + _WARM, seed=writer.number)
    items = [
        _item(writer, at, text, vector)
        for at, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
    ]
    days = 30.0 if _KINDS[writer.kind] else 0.0
    with closing(PostgresCollection(writer.url, model=_MODEL, history_days=days)) as collection:
        for item in items[:_WARM]:
            collection.add([item])
        _start.wait()
        began, each = time.time(), list[float]()
        for item in items[_WARM:]:
            started = time.perf_counter()
            collection.add([item])
            each.append((time.perf_counter() - started) * 1000)
        return Written(began, time.time(), each)


def _item(
    writer: Writer, at: int, text: str, vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
) -> PreparedItem:
    name = at if writer.kind == "insert" else at % _REPLACED
    item = MemoryItem(
        id=f"{writer.number}/{name}",
        content_summary=text,
        scope=Scope(user=f"user {writer.number}"),
        created_at=1.7e9 + at,
        embedding=vector,
    )
    return PreparedItem.of(item)
