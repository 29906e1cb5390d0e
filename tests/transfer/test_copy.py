"""Copying a store: vectors of another model are never taken for the target's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from devmem.model.items import MemoryItem, Vector
from devmem.models import Embedder, TokenEmbedding
from devmem.stores import CollectionMemory, MemoryQuery
from devmem.testing import HashEmbedder, HashTokenEmbedder
from devmem.transfer.copy import CopyReport, copy_items
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

Open = Callable[[str, Embedder | None], CollectionMemory]
TEXTS = ["The launch is on June 2nd.", "The code of the lab is 4711.", "Ann likes tea. " * 200 + "Bob likes coffee."]


class Mirrored(HashEmbedder):
    """Another model: its vectors are as long, and mean something else."""

    def embed(self, texts: Sequence[str]) -> Vector:
        return super().embed(texts)[:, ::-1].copy()


class Counted(HashTokenEmbedder):
    """Counts the texts that it embeds."""

    def __init__(self, dimension: int = 64, *, name: str = "") -> None:
        super().__init__(dimension, name=name)
        self.embedded = 0

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        self.embedded += len(texts)
        return super().embed_tokens(texts)


@pytest.fixture
def open_store(make_store: MakeStore) -> Open:
    def open_(name: str, embedder: Embedder | None) -> CollectionMemory:
        return make_store(SimpleMemory, name=name, embedder=embedder, memory_path=f"{name}.db")

    return open_


def filled(store: CollectionMemory) -> CollectionMemory:
    store.add([MemoryItem(id=f"i{at}", content_summary=text) for at, text in enumerate(TEXTS)])
    return store


def copied(source: CollectionMemory, target: CollectionMemory) -> CopyReport:
    report = copy_items(source, target, lambda _: None)
    assert report.complete
    return report


def vectors(store: CollectionMemory) -> list[Vector]:
    return [row for one in store.collection.embeddings(["i0", "i1", "i2"]).values() for row in one.vectors]


@pytest.mark.parametrize("dimension", [64, 32])
def test_what_another_model_embedded_is_embedded_again(open_store: Open, dimension: int) -> None:
    target = open_store("target", HashEmbedder(dimension, name="new"))
    copied(filled(open_store("source", Mirrored(64, name="old"))), target)
    hit = target.search(MemoryQuery(text="The launch is on June 2nd.", limit=1))[0]
    assert hit.item.id == "i0"
    assert hit.similarity == pytest.approx(1.0, abs=1e-5)
    assert target.info().embedding == "new"
    assert target.info().waiting == 0


def test_what_the_same_model_embedded_is_taken_over_with_its_passages_and_tokens(open_store: Open) -> None:
    source, model = filled(open_store("source", Counted(name="one"))), Counted(name="one")
    target = open_store("target", model)
    copied(source, target)
    assert model.embedded == 0
    assert len(vectors(target)) == len(vectors(source)) > 3
    assert [a.tolist() for a in vectors(target)] == [b.tolist() for b in vectors(source)]
    tokens = target.collection.embeddings(["i2"])["i2"].tokens
    assert tokens is not None
    assert len(tokens) == len(target.collection.embeddings(["i2"])["i2"].vectors)


def test_a_copy_is_compared_by_its_hash(open_store: Open) -> None:
    source, target = filled(open_store("source", None)), open_store("target", None)
    first = copied(source, target)
    assert first.identical
    source.add([replace(item, metadata={"topic": "tea"}) for item in source.get(["i2"])])
    second = copied(source, target)
    assert second.identical
    assert second.source_hash != first.source_hash
    assert second.counts == {"duplicate": 2, "superseded": 1}
    assert target.get(["i2"])[0].metadata == {"topic": "tea"}


def test_a_new_store_is_searched_by_the_fields_of_the_source(open_store: Open) -> None:
    """Items that are added to it later, too."""
    source, target = open_store("source", None), open_store("target", None)
    source.collection.index_fields(["title"])  # type: ignore[attr-defined]
    source.add([MemoryItem(id="i0", content_summary="x", metadata={"title": "launch"})])
    assert copied(source, target).identical
    target.add([MemoryItem(id="i1", content_summary="y", metadata={"title": "review"})])
    assert [item.id for item in target.retrieve("", "review", 3)] == ["i1"]


def test_a_copy_into_a_store_with_fields_is_the_same_and_is_made_once(open_store: Open) -> None:
    model = Counted(name="one")
    source, target = filled(open_store("source", None)), open_store("target", model)
    target.collection.index_fields(["title"])  # type: ignore[attr-defined]
    assert copied(source, target).identical
    embedded = model.embedded
    assert copied(source, target).counts == {"duplicate": 3}
    assert model.embedded == embedded


def test_a_copy_goes_on_where_it_stopped(open_store: Open) -> None:
    source, target = filled(open_store("source", HashEmbedder(name="old"))), open_store("target", None)
    target.add(source.get(["i0"]))
    assert copied(source, target).counts == {"duplicate": 1, "stored": 2}
