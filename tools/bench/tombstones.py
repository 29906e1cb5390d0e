"""The cost of tombstones: of adding an item without any and with many, and of guessing what they stand for."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem import MemoryItem, Scope
from devmem.storage import SqliteCollection
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.tables import SqliteTables
from devmem.storage.tombstones import new_key
from tools.bench.rows import JsonFile, Row, report

_TEXT: Final = (
    "The meeting about release {n} was moved to room {n}. Ann brings the figures of case {n}. "
    "Nobody has to prepare anything else for number {n}, she said."
)
_ROUNDS: Final = 5


def command(
    tombstones: Annotated[int, typer.Option(min=1, help="Number of erased texts.")] = 10_000,
    items: Annotated[int, typer.Option(min=1, help="Number of items that are added, one by one.")] = 300,
    json_file: JsonFile = None,
) -> None:
    """Measure adding beside tombstones, in turn with adding without any, and the rate of a dictionary attack."""
    report(list(run(tombstones, items)), json_file)


def run(tombstones: int, items: int) -> Iterator[Row]:
    """Add to two files in turn, one of them with tombstones."""
    names = ("without", f"with_{tombstones}")
    spent: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(prefix="devmem-tombstones-") as folder:
        for name in names:
            with closing(SqliteCollection(Path(folder) / f"{name}.db", durability="normal")) as collection:
                if name != "without":
                    started = time.perf_counter()
                    collection.keep_tombstones([_item(n) for n in range(tombstones)])
                    yield _row(name, "keep", 1000 * (time.perf_counter() - started), "ms")
                    beside = Path(f"{collection.location}.tombstones")
                    yield _row(name, "file", beside.stat().st_size / tombstones, "bytes/text")
        for turn in range(_ROUNDS):
            for name in names:
                with closing(SqliteCollection(Path(folder) / f"{name}.db", durability="normal")) as collection:
                    spent[name] += _added(collection, turn * items, items)
        checks = {name: _check(Path(folder) / f"{name}.db") for name in names}
    for name, times in spent.items():
        yield _row(name, "add_median", 1e6 * statistics.median(times), "us")
        yield _row(name, "check", checks[name], "us")
    yield _row("attack", "guesses", _guesses(), "1/s")


def _item(number: int) -> MemoryItem:
    return MemoryItem(content_summary=_TEXT.format(n=abs(number)), scope=Scope(user="ann"))


def _added(collection: SqliteCollection, first: int, count: int) -> list[float]:
    times: list[float] = []
    for number in range(first, first + count):
        item = _item(10**6 + number)
        started = time.perf_counter()
        (outcome,) = collection.add([item])
        times.append(time.perf_counter() - started)
        if not outcome:
            raise RuntimeError(f"{item.content_summary!r} was not stored: {outcome.reason}")
    return times


def _check(path: Path) -> float:
    """Return the microseconds that the transaction of an `add` spends on tombstones."""
    item, count = _item(10**7), 2_000
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("BEGIN")
        tables = SqliteTables(connection, str(path), SqliteDialect(), frozenset())
        started = time.perf_counter()
        for _ in range(count):
            tables.erased_among([item])
        return 1e6 * (time.perf_counter() - started) / count


def _guesses() -> float:
    """Return how many texts one core hashes in a second, as whoever has the file could do."""
    key, count = new_key(), 200_000
    started = time.perf_counter()
    for number in range(count):
        blake2b(b"herdoorcodeis%d" % number, digest_size=16, key=key).digest()
    return count / (time.perf_counter() - started)


def _row(case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench="tombstones", case=case, metric=metric, value=value, unit=unit)
