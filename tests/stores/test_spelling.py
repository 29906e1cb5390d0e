"""A store searches for what is meant by a misspelled word, and by what asks something, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryItem
from devmem.errors import EmbeddingUnavailableError
from devmem.models.embedder import TokenEmbedding
from devmem.stores import CollectionMemory, Embedder, MemoryQuery, QueryEmbedding
from devmem.testing import HashEmbedder, HashTokenEmbedder
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

Open = Callable[..., CollectionMemory]
TYPO, MEANT = "When do we recieve a parcel?", "When do we receive a parcel?"


class Reader(HashTokenEmbedder):
    """Knows a few words."""

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed texts and tokens."""
        known = frozenset({"receive", "parcel", "weather", "alright"})
        return [replace(one, vocabulary=known) for one in super().embed_tokens(texts)]


class Unsteady(Reader):
    """Answers until the corrected question is to be embedded."""

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed texts and tokens, or fail."""
        if MEANT in texts:
            raise EmbeddingUnavailableError("no answer")
        return super().embed_tokens(texts)


class Silent(HashEmbedder):
    """Answers when items are written, and not when a question is asked."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Embed, or fail."""
        if any(text.endswith("?") for text in texts):
            raise EmbeddingUnavailableError("no answer")
        return super().embed(texts)


@pytest.fixture
def opened(make_store: MakeStore) -> Open:
    def opened(embedder: Embedder | None = None, **retrieval: Any) -> CollectionMemory:
        store = make_store(SimpleMemory, embedder=embedder, retrieval=retrieval)
        texts = {
            "post": "Parcels: we receive them on Monday.",
            "letters": "They receive letters.",
            "dry": "Dry weather.",
        }
        store.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
        return store

    return opened


def corrections(store: CollectionMemory, text: str = TYPO, **query: Any) -> Mapping[str, str]:
    return store.search(MemoryQuery(text=text, limit=3, **query)).corrected


@pytest.mark.parametrize("embedder", [None, HashEmbedder(), Reader(), Silent()])
def test_a_misspelled_word_is_found(opened: Open, embedder: Embedder | None) -> None:
    """By words alone, with a model whose words are not known, with one whose words are, and when a provider fails."""
    store = opened(embedder)
    assert corrections(store) == {"recieve": "receive"}
    report = store.search(MemoryQuery(text="recieve", limit=2))
    assert {hit.item.id for hit in report.hits} == {"post", "letters"}
    assert all(hit.lexical for hit in report.hits)


def test_the_meant_word_is_embedded_where_the_model_knows_it(opened: Open) -> None:
    embedder = Reader()
    store = opened(embedder)
    mistyped, right = (
        {hit.item.id: hit.score for hit in store.search(MemoryQuery(text=text, limit=3)).hits} for text in (TYPO, MEANT)
    )
    assert mistyped == pytest.approx(right)
    assert embedder.texts.count(MEANT) == 1
    store.search(MemoryQuery(text=TYPO, limit=3))
    assert (embedder.texts.count(TYPO), embedder.texts.count(MEANT)) == (1, 1)


def test_the_embedding_of_what_was_typed_stays_where_the_other_fails(opened: Open) -> None:
    """For the next store that is asked, too."""
    store = opened(embedder := Unsteady())
    embedding = QueryEmbedding(TYPO)
    for _ in range(2):
        report = store.search(MemoryQuery(text=TYPO, limit=3, embedding=embedding))
        assert report.corrected == {"recieve": "receive"}
        assert all(hit.similarity is not None for hit in report.hits)
    assert embedder.identity.name in embedding.failures


@pytest.mark.parametrize("embedder", [None, Reader()])
def test_it_can_be_switched_off(opened: Open, embedder: Embedder | None) -> None:
    store = opened(embedder, spelling=False)
    assert corrections(store) == {}


MESSAGE = "We were on the cold lake for hours! By the way, when does my sister arrive?"


def test_records_like_another_share_any_of_its_words(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("We swam in the cold lake for hours.", id="lake")
        memory.add("My sister arrives by train.", id="train")
        memory.add(MESSAGE, id="message")
        assert [hit.id for hit in memory.search(MESSAGE, limit=3)] == ["train", "message", "lake"]
        # Every word counts here, of which the lake has more.
        assert [hit.id for hit in memory.search(like="message", limit=2)] == ["lake", "train"]
