"""Filters and calls for many items, beside the same done with single calls and in Python.

A memory of devmem in a SQLite file and one on a PostgreSQL server are filled with the same generated items, without a
model. Times are medians of calls in this process, in ms.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Final, TypeAlias

import typer

import devmem
from devmem import Filter
from devmem.storage import at_least, contains, one_of
from tools.bench.places import SERVER_SETTINGS
from tools.bench.rows import JsonFile, Row, ServerUrl, report
from tools.bench.synthetic import make_corpus
from tools.postgres_server import PostgresServer

_CALLS: Final = 7
_FEW: Final = 1
_MANY: Final = 300
"""Number of items that one call adds, returns or changes."""
_FILLED: Final = 2_000
_TOPICS: Final = 7
_FILTERS: Final[Mapping[str, Filter]] = {
    "not": ~Filter(metadata={"topic": "t3"}),
    "nested": Filter(metadata={"place.floor": at_least(8)}),
    "list": Filter(metadata={"tags": contains("g5")}),
    "both": Filter(metadata={"topic": one_of("t1", "t2")}) & ~Filter(metadata={"tags": contains("g5")}),
}
_ONE_BATCH: Final = Filter(metadata={"batch": 1})
_Pair: TypeAlias = tuple[Callable[[], object], Callable[[], object]]
"""One call, and the same in Python."""


def command(
    sizes: Annotated[str, typer.Option(help="Numbers of memories, as 10000,100000.")] = "10000",
    only: Annotated[str | None, typer.Option(help="`sqlite` or `postgres` alone.")] = None,
    url: ServerUrl = None,
    json_file: JsonFile = None,
) -> None:
    """Measure filters, counts and calls for many items on SQLite and PostgreSQL."""
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--sizes takes numbers such as 10000,100000, not {sizes!r}") from error
    with ExitStack() as stack:
        if url is None:
            server = PostgresServer(durable=True, settings=SERVER_SETTINGS)
            stack.callback(server.close)
            url = server.url()
        report([row for size in numbers for row in run(size, url, only)], json_file)


def run(size: int, url: str, only: str | None = None) -> Iterator[Row]:
    """Fill a memory of each kind and measure it."""
    texts = [f"{text} {at}" for at, text in enumerate(make_corpus(size, dimension=8).texts)]
    with tempfile.TemporaryDirectory() as folder:
        places = {
            "sqlite": str(Path(folder, "memory.db")),
            "postgres": f"{url}{'&' if '?' in url else '?'}store=bulk+{size}",
        }
        for name, place in places.items():
            if only not in (None, name):
                continue
            case = f"{name}:{size / 1000:g}k"
            with devmem.open(place, embedding=None) as memory:
                started = time.perf_counter()
                for at in range(0, size, _FILLED):
                    memory.add([_item(number, text) for number, text in enumerate(texts[at : at + _FILLED], start=at)])
                rate = size / (time.perf_counter() - started)
                yield Row(bench="bulk", case=case, metric="fill", value=rate, unit="items/s")
                for metric, pair in _pairs(memory, texts).items():
                    for suffix, call, calls in zip(("", "_python"), pair, (_CALLS, _FEW), strict=True):
                        if calls > 1:
                            call()
                        value = median(_ms(call) for _ in range(calls))
                        yield Row(bench="bulk", case=case, metric=metric + suffix, value=value, unit="ms")


def _item(number: int, text: str) -> dict[str, object]:
    metadata = {
        "topic": f"t{number % _TOPICS}",
        "tags": [f"g{number % 50}", f"h{number % 3}"],
        "place": {"floor": number % 10},
        "batch": number // _MANY,
    }
    return {"text": text, "metadata": metadata}


def _pairs(memory: devmem.Memory, texts: list[str]) -> dict[str, _Pair]:
    """Return each measured call with what does the same without it, after checking that both give the same."""
    size, query = len(texts), texts[len(texts) // 2][:40]
    pairs: dict[str, _Pair] = {}
    for name, where in _FILTERS.items():
        pairs[f"count_{name}"] = (partial(memory.count, where=where), partial(_count_in_python, memory, where))
        pairs[f"search_{name}"] = (
            partial(memory.search, query, where=where, limit=5),
            partial(_search_in_python, memory, where, query, size),
        )
    pairs["count_by_key"] = (
        lambda: dict(memory.count(by="metadata.topic")),
        lambda: dict(Counter(record.metadata["topic"] for record in memory.scan())),
    )
    for metric, (call, in_python) in pairs.items():
        if not metric.startswith("search") and call() != in_python():
            raise AssertionError(f"{metric}: one call and Python differ")
    ids = [record.id for record in memory.list(_MANY, where=_ONE_BATCH)]
    pairs["get_300"] = (lambda: memory.get(ids), lambda: [memory.get(one) for one in ids])
    numbers = iter(range(10**9))
    pairs["add_300"] = (
        lambda: memory.add([{"id": f"a{next(numbers)}", "text": "news"} for _ in range(_MANY)]),
        lambda: [memory.add([{"id": f"a{next(numbers)}", "text": "news"}]) for _ in range(_MANY)],
    )
    pairs["update_300"] = (
        lambda: memory.update(where=_ONE_BATCH, metadata={"state": f"s{next(numbers)}"}),
        lambda: [memory.update(one, metadata={"state": f"s{next(numbers)}"}) for one in ids],
    )
    return pairs


def _count_in_python(memory: devmem.Memory, where: Filter) -> int:
    now = time.time()
    return sum(where.admits(record, now) for record in memory.scan())


def _search_in_python(memory: devmem.Memory, where: Filter, query: str, size: int) -> list[devmem.Hit]:
    now = time.time()
    return [hit for hit in memory.search(query, limit=size) if where.admits(hit.item, now)][:5]


def _ms(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3
