"""An interrupted or failed operation leaves nothing half done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.errors import CollectionUnwritableError, EmbeddingMismatchError
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder


def test_another_model_while_the_file_is_open(tmp_path: Path, embedder: HashEmbedder) -> None:
    """Another process embeds it again with vectors of the same length: nothing is mixed, nothing compared."""
    path, other = tmp_path / "store.db", HashEmbedder(dimension=32, name="another")
    here = SqliteCollection(path, model=embedder.identity)
    here.add([MemoryItem(id="1", content_summary="tea", embedding=embedder.vector("tea"))])
    there = SqliteCollection(path)
    there.replace_model("another", 32)
    there.set_embeddings({"1": PassageEmbeddings.of(other.vector("tea"))})
    with pytest.raises(EmbeddingMismatchError):
        here.search(SearchQuery(vector=embedder.vector("tea")))
    with pytest.raises(EmbeddingMismatchError):
        here.add([MemoryItem(content_summary="rain", embedding=embedder.vector("rain"))])
    here.add([MemoryItem(id="2", content_summary="bread")])
    with pytest.raises(EmbeddingMismatchError):
        here.set_embeddings({"2": PassageEmbeddings.of(embedder.vector("bread"))})
    assert [hit.item.id for hit in here.search(SearchQuery(text="tea"))] == ["1"]
    assert [item.id for item in there.waiting(5)] == ["2"]


def test_a_model_that_could_not_be_replaced_in_a_json_file(
    tmp_path: Path, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "memory.json"
    collection = JsonCollection(path, model=embedder.identity)
    collection.add([MemoryItem(id="1", content_summary="tea", embedding=embedder.vector("tea"))])
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(CollectionUnwritableError):
            collection.replace_model("another", 32)
    assert collection.waiting(5) == []
    JsonCollection(path, model=embedder.identity).add([MemoryItem(id="2", content_summary="rain")])
    assert collection.replace_model("another", 32) == 2
