"""A store searches for what is meant by a misspelled word, and says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmem
from devmem import MemoryItem
from devmem.errors import EmbeddingUnavailableError
from devmem.models.embedder import TokenEmbedding
from devmem.storage import Weights
from devmem.stores import CollectionMemory, Embedder, MemoryQuery, QueryEmbedding, StoreSetup
from devmem.testing import HashEmbedder, HashTokenEmbedder
from devmem_stores.simple import SimpleConfig, SimpleMemory

TYPO, MEANT = "When do we recieve a parcel?", "When do we receive a parcel?"

Open = Callable[..., CollectionMemory]


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


def opened(embedder: Embedder | None = None, **retrieval: Any) -> CollectionMemory:
    config = {"retrieval": retrieval, "embedding": {"provider": "minilm"} if embedder else None}
    setup = StoreSetup(
        name="notes",
        store_type="simple",
        config=SimpleConfig.model_validate(config),
        open_embedder=lambda _: embedder or HashEmbedder(),
    )
    store = SimpleMemory(setup)
    store.load()
    texts = {"post": "Parcels: we receive them on Monday.", "letters": "They receive letters.", "dry": "Dry weather."}
    store.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
    return store


def corrections(store: CollectionMemory, text: str = TYPO, **query: Any) -> Mapping[str, str]:
    return store.search(MemoryQuery(text=text, limit=3, **query)).corrected


@pytest.mark.parametrize("embedder", [None, HashEmbedder(), Reader(), Silent()])
def test_a_misspelled_word_is_found(embedder: Embedder | None) -> None:
    """By words alone, with a model whose words are not known, with one whose words are, and when a provider fails."""
    store = opened(embedder)
    assert corrections(store) == {"recieve": "receive"}
    report = store.search(MemoryQuery(text="recieve", limit=2))
    assert {hit.item.id for hit in report.hits} == {"post", "letters"}
    assert all(hit.lexical for hit in report.hits)
    store.close()


def test_the_meant_word_is_embedded_where_the_model_knows_it() -> None:
    embedder = Reader()
    store = opened(embedder)
    mistyped, right = (
        {hit.item.id: hit.score for hit in store.search(MemoryQuery(text=text, limit=3)).hits} for text in (TYPO, MEANT)
    )
    assert mistyped == pytest.approx(right)
    assert embedder.texts.count(MEANT) == 1
    store.search(MemoryQuery(text=TYPO, limit=3))
    assert (embedder.texts.count(TYPO), embedder.texts.count(MEANT)) == (1, 1)
    store.close()


def test_the_embedding_of_what_was_typed_stays_where_the_other_fails() -> None:
    """For the next store that is asked, too."""
    store = opened(embedder := Unsteady())
    embedding = QueryEmbedding(TYPO)
    for _ in range(2):
        report = store.search(MemoryQuery(text=TYPO, limit=3, embedding=embedding))
        assert report.corrected == {"recieve": "receive"}
        assert all(hit.similarity is not None for hit in report.hits)
    assert embedder.identity.name in embedding.failures
    store.close()


def test_a_word_that_the_model_does_not_know_is_not_meant() -> None:
    """Without a vocabulary it has to be in two items, as one may have the same typo."""
    store = opened(Reader())
    store.add([MemoryItem(id=f"{n}", content_summary="My neighbour plays the accordion.") for n in range(2)])
    assert corrections(store, "Who plays the accordoin?") == {}
    store.close()
    by_words = opened()
    by_words.add([MemoryItem(id="0", content_summary="My neighbour plays the accordion.")])
    assert corrections(by_words, "Who plays the accordoin?") == {}
    by_words.add([MemoryItem(id="1", content_summary="An accordion is heavy.")])
    assert corrections(by_words, "Who plays the accordoin?") == {"accordoin": "accordion"}
    by_words.close()


def test_a_word_that_an_item_has_is_right() -> None:
    store = opened(Reader())
    store.add([MemoryItem(id="typo", content_summary="I never recieve anything.")])
    assert corrections(store) == {}
    store.close()


@pytest.mark.parametrize("embedder", [None, Reader()])
def test_it_can_be_switched_off(embedder: Embedder | None) -> None:
    store = opened(embedder, spelling=False)
    assert corrections(store) == {}
    store.close()


def test_texts_that_are_compared_and_given_vectors_are_searched_unchanged() -> None:
    """A given vector stays, but its text is searched for what is meant; other ways to rank take the text unchanged."""
    store = opened(Reader())
    assert corrections(store, embedding=QueryEmbedding(TYPO, focus=False)) == {}
    assert store.search_query(MemoryQuery(text=TYPO), limit=3, weights=Weights()).spelling is None
    given = np.eye(64, dtype=np.float32)[0]
    wanted = store.search_query(MemoryQuery(text=TYPO, embedding=QueryEmbedding(TYPO, given=given)), limit=3)
    assert wanted.spelling is not None
    changed = wanted.spelling.applied(wanted, {"recieve": "receive"})
    assert changed.text == MEANT
    assert changed.vector is given
    store.close()


@pytest.mark.parametrize(
    "text", ["什么时候收到包裹？", "我们什么时候 recieve 包裹？", "", "Wann bekomme ich das Paket?"]
)
def test_other_languages_are_searched_unchanged(text: str) -> None:
    for embedder in (None, Reader()):
        store = opened(embedder)
        report = store.search(MemoryQuery(text=text, limit=3))
        assert set(report.corrected) <= {"recieve"}
        store.close()


def test_conversations_are_found_by_what_is_meant() -> None:
    store = opened()
    groups = store.answer_conversations(MemoryQuery(text="recieve", limit=3), 2)
    assert {hit.item.id for group in groups for hit in group.hits} == {"post", "letters"}
    store.close()


def test_what_asks_is_corrected_beside_small_talk(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        for text in ("Parcels: we receive them on Monday.", "They receive letters."):
            memory.add(text)
        found = memory.search("What a lovely day on the lake! By the way, when do we recieve the parcels?", limit=1)
        assert found[0].text.startswith("Parcels")
