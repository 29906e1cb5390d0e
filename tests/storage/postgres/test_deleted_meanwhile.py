"""Items that are embedded, changed and deleted at one moment: nothing of what is deleted stays or is found."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from random import Random

import pytest

from devmem.model.items import MemoryItem
from devmem.models.embedder import PassageEmbeddings
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.testing import HashEmbedder

pytestmark = pytest.mark.postgres

EMBEDDER = HashEmbedder(dimension=16)
ITEMS, ROUNDS = 120, 20


def embed(store: PostgresCollection) -> None:
    """Embed what waits, as the queue of a store does."""
    for _ in range(3 * ROUNDS):
        made = {
            item.id: PassageEmbeddings(
                vectors=EMBEDDER.vector(item.content_summary).reshape(1, -1), content_hash=item.content_hash
            )
            for item in store.waiting(8)
        }
        store.set_embeddings(made)


def delete(store: PostgresCollection) -> None:
    chance = Random(1)
    for number in range(ROUNDS):
        ids = [str(chance.randrange(ITEMS)) for _ in range(3)]
        if number % 2:
            store.delete(ids=ids)
        else:
            store.erase(ids=ids)


def change(store: PostgresCollection) -> None:
    chance = Random(2)
    for number in range(ROUNDS):
        store.add([MemoryItem(id=str(chance.randrange(ITEMS)), content_summary=f"changed{number} tea")])


def test_what_is_deleted_while_it_is_embedded_leaves_nothing(store_url: str) -> None:
    def worked(work: Callable[[PostgresCollection], None]) -> None:
        with closing(PostgresCollection(store_url, model=EMBEDDER.identity)) as store:
            work(store)

    with closing(PostgresCollection(store_url, model=EMBEDDER.identity)) as reader:
        reader.add([MemoryItem(id=str(number), content_summary=f"word{number} tea") for number in range(ITEMS)])
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(worked, work) for work in (embed, delete, change)]:
                done.result()
        items = {item.id: item for item in reader.scan()}
        for query in (SearchQuery(text="tea", limit=ITEMS), SearchQuery(vector=EMBEDDER.vector("tea"), limit=ITEMS)):
            assert {hit.item.id for hit in reader.search(query)} <= items.keys()
        for item in items.values():
            if item.embedding is not None:
                assert item.embedding @ EMBEDDER.vector(item.content_summary) == pytest.approx(1, abs=1e-3)
        for table, owner, place in (("passages", "items", "row"), ("vectors", "passages", "passage")):
            number = f"one.passage >> {PASSAGE_BITS}" if place == "row" else "one.passage"
            orphans = (
                f"SELECT count(*) FROM {table} AS one WHERE store = %s AND NOT EXISTS (SELECT FROM {owner} AS owner "
                f"WHERE owner.store = one.store AND owner.{place} = {number})"
            )
            assert reader._fetch(orphans, [reader.database.store]) == [(0,)]
