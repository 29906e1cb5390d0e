"""A store on several databases beside the same items in one: latency within a tenant and over all, and a move."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem import MemoryItem, Scope
from devmem.config.shards import ShardsConfig
from devmem.config.store import IndexConfig
from devmem.model.filters import Filter
from devmem.models.embedder import ModelIdentity
from devmem.search.query import SearchQuery
from devmem.storage.opening import open_collection
from devmem.storage.protocol import Collection
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.moving import move_tenant
from tools.bench.rows import JsonFile, Row, report
from tools.bench.synthetic import BLOCK, Blocks
from tools.postgres_server import PostgresServer

_MODEL: Final = ModelIdentity(name="synthetic", dimension=384)
_TENANTS: Final = 30
_BATCH: Final = 1_000
_TOP: Final = 10
_WRITES_BEFORE: Final = 300
"""Number of writes that the latency during a move is compared with."""


def command(
    items: Annotated[int, typer.Option(min=1, help="Number of items of each shard.")] = 100_000,
    shards: Annotated[int, typer.Option(min=2, help="Number of shards.")] = 3,
    moved: Annotated[int, typer.Option(min=1, help="Number of items of the tenant that moves.")] = 20_000,
    questions: Annotated[int, typer.Option(min=1, help="Number of questions of each kind.")] = 100,
    servers: Annotated[
        bool, typer.Option("--servers", help="A PostgreSQL server for each shard, instead of files.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure a sharded store in turn with one database that holds the same items."""
    report(list(run(items, shards, moved, questions, servers=servers)), json_file)


def run(items: int, shards: int, moved: int, questions: int, *, servers: bool) -> Iterator[Row]:
    """Fill both, ask both in turn, and move a tenant under writes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="devmem-shards-")))
        places = list(_places(stack, folder, shards + 1, servers=servers))
        config = ShardsConfig(shards={f"s{at}": place for at, place in enumerate(places[1:])})
        one = stack.enter_context(closing(open_collection(places[0], model=_MODEL, durability="normal")))
        several = stack.enter_context(closing(open_collection(config.url(), model=_MODEL, durability="normal")))
        assert isinstance(several, ShardedCollection)
        case = f"{shards}x{items}:{'postgres' if servers else 'sqlite'}"
        blocks = Blocks()
        for batch in _batches(blocks, items * shards):
            one.add(batch)
            several.add(batch)
        exact = stack.enter_context(
            closing(open_collection(places[0], model=_MODEL, index=IndexConfig(search="exact", mode="follow")))
        )
        yield from _ask(case, blocks, {"one": one, "shards": several, "exact": exact}, questions)
        yield from _move(case, blocks, several, moved)


def _places(stack: ExitStack, folder: Path, number: int, *, servers: bool) -> Iterator[str]:
    for at in range(number):
        if not servers:
            yield str(folder / f"{at}.db")
            continue
        server = PostgresServer()
        stack.callback(server.close)
        yield server.url(store="bench")


def _batches(blocks: Blocks, count: int) -> Iterator[list[MemoryItem]]:
    for start in range(0, count, _BATCH):
        corpus, first = blocks.block(start // BLOCK), start % BLOCK
        yield [
            MemoryItem(
                id=str(start + at),
                content_summary=corpus.texts[first + at],
                embedding=corpus.vectors[first + at],
                scope=Scope(user=f"user {(start + at) % _TENANTS}"),
                created_at=1e9 + start + at,
            )
            for at in range(min(_BATCH, count - start, BLOCK - first))
        ]


def _ask(case: str, blocks: Blocks, stores: Mapping[str, Collection], questions: int) -> Iterator[Row]:
    """Ask one database and the shards, and one database that compares with every vector."""
    corpus = blocks.block(9_999)
    asked = [
        SearchQuery(text=" ".join(corpus.texts[at].split()[:6]), vector=corpus.vectors[at], limit=_TOP)
        for at in range(questions)
    ]
    tenants = [Filter(scope=Scope(user=f"user {at % 2}"), include_unscoped=True) for at in range(questions)]
    for name, queries in (
        ("tenant", [replace(query, where=where) for query, where in zip(asked, tenants, strict=True)]),
        ("all", asked),
    ):
        spent: dict[str, list[float]] = {store: [] for store in stores}
        found: dict[str, list[list[str]]] = {store: [] for store in stores}
        for store in stores.values():
            store.find(queries[0])
        for query in queries:
            for kind, store in stores.items():
                started = time.perf_counter()
                found[kind].append([hit.item.id for hit in store.find(query).hits])
                spent[kind].append(1000 * (time.perf_counter() - started))
        for kind, times in spent.items():
            yield _row(case, f"{name}_p50:{kind}", statistics.median(times), "ms")
        ratios = [ours / theirs for ours, theirs in zip(spent["shards"], spent["one"], strict=True)]
        yield _row(case, f"{name}_ratio", statistics.median(ratios), "x")
        for kind, other in (("shards", "one"), ("shards", "exact"), ("one", "exact")):
            pairs = list(zip(found[kind], found[other], strict=True))
            same = sum(set(ours) == set(theirs) for ours, theirs in pairs)
            yield _row(case, f"{name}_same_top_10:{kind}_to_{other}", same / questions, "share")
            first = sum(ours[:1] == theirs[:1] for ours, theirs in pairs)
            yield _row(case, f"{name}_same_first:{kind}_to_{other}", first / questions, "share")


def _move(case: str, blocks: Blocks, several: ShardedCollection, moved: int) -> Iterator[Row]:
    """Move a tenant while a thread writes to it without a pause, which it does for a while before as well."""
    owner = Scope(user="mover")
    for batch in _batches(blocks, moved):
        several.add([replace(item, id=f"m{item.id}", scope=owner) for item in batch])
    corpus, stop = blocks.block(9_998), threading.Event()
    before, meanwhile = list[float](), list[float]()

    def write(spent: list[float], prefix: str) -> None:
        at = len(spent) % BLOCK
        item = MemoryItem(
            id=f"{prefix}{len(spent)}",
            content_summary=corpus.texts[at],
            embedding=corpus.vectors[at],
            scope=owner,
        )
        started = time.perf_counter()
        several.add([item])
        spent.append(time.perf_counter() - started)

    def write_on() -> None:
        while not stop.is_set():
            write(meanwhile, "w")

    for _ in range(_WRITES_BEFORE):
        write(before, "b")
    source = several.shards.map.shard_of("mover")
    target = next(name for name in several.shards.map.ring if name != source)
    writer = threading.Thread(target=write_on)
    writer.start()
    started = time.perf_counter()
    try:
        done = move_tenant(several.shards, "mover", target)
        seconds = time.perf_counter() - started
    finally:
        stop.set()
        writer.join()
    yield _row(case, "move", seconds, "s")
    yield _row(case, "move_rate", done.copied / seconds, "1/s")
    yield _row(case, "writes_meanwhile", len(meanwhile), "count")
    for kind, spent in (("before", before), ("meanwhile", meanwhile)):
        percentiles = statistics.quantiles(spent, n=100)
        yield _row(case, f"write_p50:{kind}", 1000 * percentiles[49], "ms")
        yield _row(case, f"write_p99:{kind}", 1000 * percentiles[98], "ms")
    yield _row(case, "longest_write", 1000 * max(meanwhile), "ms")
    yield _row(case, "longest_wait", 1000 * done.longest_wait, "ms")
    ids = [item.id for item in several.scan(Filter(scope=owner))]
    yield _row(case, "lost", moved + len(before) + len(meanwhile) - len(set(ids)), "count")
    yield _row(case, "doubled", len(ids) - len(set(ids)), "count")


def _row(case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench="shards", case=case, metric=metric, value=value, unit=unit)
