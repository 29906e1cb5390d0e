"""Collections side by side: a SQLite file, and a PostgreSQL store.

All are filled with the same generated memories, and answer the same questions in one process.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from rich.console import Console

from devmem import Filter, MemoryItem, Scope
from devmem.config import IndexConfig
from devmem.models import ModelIdentity
from devmem.search.query import Weights
from devmem.storage import Collection, PreparedItem, SearchQuery, SqliteCollection
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection, composed
from tools.bench.index_builds import IndexBuilds
from tools.bench.rows import JsonFile, Row, ServerUrl, report
from tools.bench.speed.corpus import NEAREST, CorpusFiles, Queries, prepare
from tools.bench.speed.rows import label, parse_size
from tools.bench.speed.words import encoding, token_embedding
from tools.postgres_server import PostgresServer

_USERS: Final = 50
"""Number of scopes, of 2 % of the memories each."""
_BATCH_SIZE: Final = 1_000
_OF_EACH_STORE: Final = 100
"""Number of memories of each of many stores."""
_WRITES: Final = 100
_ASKED_BEFORE: Final = 300
"""Number of other questions that were asked within a scope that is in use."""
_WORDS: Final = 8
"""Number of words of such a question."""
SERVER_SETTINGS: Final = {
    # A quarter of the memory, as PostgreSQL's documentation advises.
    "shared_buffers": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // 4 >> 20}MB",
    "maintenance_work_mem": "2GB",
    "max_wal_size": "8GB",
    # Shared memory of a container may be too small for building HNSW in parallel.
    "dynamic_shared_memory_type": "mmap",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A kind of collection, opened for measurements."""

    name: str
    open: Callable[[], SqliteCollection | PostgresCollection]
    fill: bool
    """Whether it is still empty."""


Figures = dict[str, float]
Answers = list[list[str]]
"""Ids of the ten best, for each question."""


def command(
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of memories, as in 10k,100k,1M.")] = "10k",
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder that keeps the generated memories for the next run.")
    ] = None,
    stores: Annotated[
        int, typer.Option("--stores", min=0, help="Number of stores of 100 memories that one process serves.")
    ] = 0,
    url: ServerUrl = None,
    json_file: JsonFile = None,
) -> None:
    """Measure a SQLite file, and PostgreSQL, which is searched by its server: writes, searches, recall, space."""
    try:
        wanted = sorted({parse_size(part) for part in sizes.split(",")})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
        corpora = [prepare(size, cache or Path(folder)) for size in reversed(wanted)][::-1]
        for corpus in corpora:
            for row in run(corpus, url):
                if not rows or row.case != rows[-1].case:
                    Console(stderr=True).print(f"measured: {row.case}", highlight=False)
                rows.append(row)
        if stores:
            for metric, value in _many_stores(corpora[-1], stores, url).items():
                unit = "bytes" if metric == "added_resident" else "ms"
                rows.append(
                    Row(bench="collections", case=f"postgres:{stores}x100", metric=metric, value=value, unit=unit)
                )
    report(rows, json_file)


def _many_stores(corpus: CorpusFiles, count: int, url: str | None) -> Figures:
    """Measure a process that opens many stores, searches each, and then searches each again."""
    queries, texts, vectors = corpus.queries(), list(corpus.texts()), corpus.vectors()
    with ExitStack() as stack:
        if url is None:
            server = PostgresServer(settings=SERVER_SETTINGS)
            stack.callback(server.close)
            url = server.url()
        place, model = (
            f"{url}{'&' if '?' in url else '?'}store=many+",
            ModelIdentity(name="bench:precomputed", dimension=384),
        )
        for store in range(count):
            with closing(PostgresCollection(f"{place}{store}", model=model)) as collection:
                numbers = [(_OF_EACH_STORE * store + at) % corpus.size for at in range(_OF_EACH_STORE)]
                collection.add([_item(str(at), at, texts[at], np.array(vectors[at])) for at in numbers])
        before = _resident()
        times: dict[str, list[float]] = {"first_search": [], "search": []}
        collections = []
        for name in times:
            for store in range(count):
                started = time.perf_counter()
                if name == "first_search":
                    collection = stack.enter_context(closing(PostgresCollection(f"{place}{store}", model=model)))
                    collections.append(collection)
                collections[store].search(_whole(queries, store % len(queries.texts)))
                times[name].append((time.perf_counter() - started) * 1000)
        found = {
            f"{name}_p{share}": float(np.percentile(each, share)) for name, each in times.items() for share in (50, 99)
        }
        return found | {"added_resident": _resident() - before}


def _resident() -> int:
    """Return the bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run(corpus: CorpusFiles, url: str | None = None) -> Iterator[Row]:
    """Measure every place with some memories; `url` is a PostgreSQL database, None starts a server."""
    queries, reference = corpus.queries(), list[Answers]()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="devmem-bench-"))
        if url is None:
            server = PostgresServer(durable=True, settings=SERVER_SETTINGS)
            stack.callback(server.close)
            url = server.url()
        for place in _places(Path(folder), f"{url}{'&' if '?' in url else '?'}store=bench+{corpus.size}"):
            figures = _measure(place, corpus, queries, reference)
            for metric, value in figures.items():
                case = f"{place.name}:{label(corpus.size)}"
                yield Row(bench="collections", case=case, metric=metric, value=value, unit=_unit(metric))


def _unit(metric: str) -> str:
    if metric.endswith("_per_s"):
        return "1/s"
    if metric.endswith("_bytes_per_item"):
        return "bytes"
    return "share" if "@" in metric else "ms"


def _places(folder: Path, url: str) -> Iterator[Place]:
    model = ModelIdentity(name="bench:precomputed", dimension=384)

    def postgres() -> PostgresCollection:
        return PostgresCollection(url, model=model, index=IndexConfig())

    yield Place(name="sqlite", open=lambda: SqliteCollection(folder / "bench.db", model=model), fill=True)
    yield Place(name="postgres", open=postgres, fill=True)


def _measure(place: Place, corpus: CorpusFiles, queries: Queries, reference: list[Answers]) -> Figures:
    """Measure one place; `reference` has the answers by words of the first place, which appends them."""
    found, builds = Figures(), IndexBuilds()
    if place.fill:
        with closing(place.open()) as collection, _timed(found, "fill_ms"):
            _fill(collection, corpus)
        found = {"batch_add_per_s": corpus.size / found["fill_ms"] * 1000}
    with closing(place.open()) as collection, _timed(found, "index_build"):
        _settle(collection, builds, _whole(queries, 0))
    with _timed(found, "cold_start"):
        collection = place.open()
        collection.search(_whole(queries, 0))
    with closing(collection):
        _settle(collection, builds, _whole(queries, 0))
        found |= _searches(collection, corpus, queries) | _recall(collection, corpus, queries)
        by_words = [_ids(collection, _by_words(queries, at)) for at in range(len(queries.texts))]
        reference.append(by_words)
        found["bm25_agreement@10"] = _overlap(by_words, reference[0])
        found["disk_bytes_per_item"] = collection.info().size_bytes / corpus.size
        found |= _writes(collection, corpus, place.name)
    return found


@contextmanager
def _timed(figures: Figures, metric: str) -> Iterator[None]:
    started = time.perf_counter()
    yield
    figures[metric] = (time.perf_counter() - started) * 1000


def _fill(collection: Collection, corpus: CorpusFiles) -> None:
    vectors, texts = corpus.vectors(), corpus.texts()
    for start in range(0, corpus.size, _BATCH_SIZE):
        numbers = range(start, min(start + _BATCH_SIZE, corpus.size))
        collection.add([_item(str(at), at, next(texts), np.array(vectors[at])) for at in numbers])


def _item(name: str, at: int, text: str, vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> PreparedItem:
    item = MemoryItem(id=name, content_summary=text, scope=Scope(user=_user(at)), created_at=1.7e9 + at)
    return replace(PreparedItem.of(item), embeddings=encoding(text, vector))


def _user(at: int) -> str:
    return f"user {at % _USERS}"


def _one_user(_at: int) -> str:
    return _user(0)


def _settle(collection: SqliteCollection | PostgresCollection, builds: IndexBuilds, query: SearchQuery) -> None:
    """Wait for the indexes that are built in the background."""
    builds.settle(lambda: collection.search(query))
    if isinstance(collection, PostgresCollection):
        collection.maintain()
        collection.database.transactions.read(_read_tables)


def _read_tables(connection: Connection) -> None:
    """Have a server keep the tables in its memory: in the order of an index, as others would be read past it."""
    connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    for table, key, column in (
        ("items", "row", "body"),
        ("vectors", "passage", "vector"),
        ("tokens", "passage", "codes"),
    ):
        rows = f"SELECT {column} FROM {table} ORDER BY store, {key} OFFSET 0"
        connection.execute(composed(f"SELECT count({column}) FROM ({rows}) AS read"))


def _whole(queries: Queries, at: int, user: str | None = None) -> SearchQuery:
    text, vector = queries.texts[at], queries.vectors[at]
    where = Filter(scope=Scope(user=user))
    return SearchQuery(text=text, vector=vector, tokens=token_embedding(text, vector), limit=NEAREST, where=where)


def _by_words(queries: Queries, at: int) -> SearchQuery:
    return SearchQuery(text=queries.texts[at], limit=NEAREST, weights=Weights(similarity=0, lexical=1))


def _by_meaning(queries: Queries, at: int, user: str | None = None) -> SearchQuery:
    where = Filter(scope=Scope(user=user))
    return SearchQuery(vector=queries.vectors[at], limit=NEAREST, weights=Weights(similarity=1, lexical=0), where=where)


def _ids(collection: Collection, query: SearchQuery) -> list[str]:
    return [hit.item.id for hit in collection.search(query)]


def _searches(collection: Collection, corpus: CorpusFiles, queries: Queries) -> Figures:
    """Measure the whole pipeline: among all memories, within scopes of 2 % in turns, and within one that is in use."""
    found = _times("search", collection, queries, lambda _: None) | _times("scoped", collection, queries, _user)
    _times("one_scope", collection, _asked_before(corpus), _one_user)
    return found | _times("one_scope", collection, queries, _one_user)


def _times(name: str, collection: Collection, queries: Queries, user: Callable[[int], str | None]) -> Figures:
    """Measure each question once; `user` returns its scope."""
    times: list[float] = []
    for at in range(len(queries.texts)):
        query = _whole(queries, at, user(at))
        started = time.perf_counter()
        collection.search(query)
        times.append((time.perf_counter() - started) * 1000)
    return {f"{name}_p{share}": float(np.percentile(times, share)) for share in (50, 99)}


def _asked_before(corpus: CorpusFiles) -> Queries:
    """Return questions within the first scope, each with the beginning of one of its memories."""
    step = _USERS * max(1, corpus.size // (_USERS * _ASKED_BEFORE))
    texts = [" ".join(text.split()[:_WORDS]) for text in islice(corpus.texts(), 0, step * _ASKED_BEFORE, step)]
    vectors = np.array(corpus.vectors()[::step][: len(texts)])
    return Queries(vectors=vectors, texts=texts, nearest=np.empty((len(texts), 0), dtype=np.int64))


def _recall(collection: Collection, corpus: CorpusFiles, queries: Queries) -> Figures:
    """Measure which of the ten nearest are found, among all memories and within a scope."""
    numbers = range(len(queries.texts))
    exact = [[str(each) for each in row] for row in queries.nearest]
    found = [_ids(collection, _by_meaning(queries, at)) for at in numbers]
    scoped = [_ids(collection, _by_meaning(queries, at, _user(at))) for at in numbers]
    in_scope = [_nearest_of_user(corpus, queries, at) for at in numbers]
    return {"recall@10": _overlap(found, exact), "scoped_recall@10": _overlap(scoped, in_scope)}


def _nearest_of_user(corpus: CorpusFiles, queries: Queries, at: int) -> list[str]:
    first = at % _USERS
    near = corpus.vectors()[first::_USERS] @ queries.vectors[at]
    return [str(first + _USERS * int(place)) for place in np.argsort(-near, kind="stable")[:NEAREST]]


def _overlap(found: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    shares = [len({*one} & {*other}) / len(other) for one, other in zip(found, wanted, strict=True) if other]
    return float(np.mean(shares)) if shares else 1.0


def _writes(collection: Collection, corpus: CorpusFiles, prefix: str) -> Figures:
    """Measure adding memories one by one, each of which is durable when it returns; they are deleted again."""
    vectors, times = corpus.vectors(), list[float]()
    for at, text in zip(range(min(_WRITES, corpus.size)), corpus.texts(), strict=False):
        item = _item(f"{prefix} {at}", at, f"{text} again", np.array(vectors[at]))
        started = time.perf_counter()
        collection.add([item])
        times.append((time.perf_counter() - started) * 1000)
    collection.delete(ids=[f"{prefix} {at}" for at in range(len(times))])
    return {f"write_p{share}": float(np.percentile(times, share)) for share in (50, 99)}
