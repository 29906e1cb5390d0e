"""Stores in a PostgreSQL database as a further case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from devmem import MemoryItem
from devmem.storage.postgres.collection import PostgresCollection, drop_store
from devmem.stores import CollectionMemory, Progress
from tools.bench.retrieval.cases import Case, Searcher, StoreSearcher
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.variants import DEFAULT
from tools.postgres_server import PostgresServer


class PostgresCase:
    """A store with devmem's defaults and its items in a database; each haystack has a store of its own."""

    name = "postgres"

    def __init__(self, server: PostgresServer) -> None:
        self._server, self._numbers = server, count()

    @contextmanager
    def opened(self, items: Sequence[MemoryItem], memo: EmbeddingMemo, progress: Progress) -> Iterator[Searcher]:
        """Store the items as an import does, and have all of them indexed; the store is dropped at the end."""
        url = self._server.url(store=f"{self.name} {next(self._numbers)}")
        variant = replace(DEFAULT, name=self.name, place=url)
        with TemporaryDirectory(prefix="devmem-bench-") as folder, variant.opened(Path(folder), memo) as store:
            assert isinstance(store, CollectionMemory)
            store.add(items, progress)
            collection = store.collection
            assert isinstance(collection, PostgresCollection)
            collection.maintain()
            yield StoreSearcher(store=store, variant=variant, index_bytes=collection.info().size_bytes)
        drop_store(url)


@contextmanager
def postgres_cases(wanted: bool) -> Iterator[list[Case]]:
    """Yield the cases, on a server that is started for them; none where they are not wanted."""
    if not wanted:
        yield []
        return
    with closing(PostgresServer()) as server:
        yield [PostgresCase(server)]
