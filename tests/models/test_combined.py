"""Vectors of one model with token vectors of another."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmem import MemoryItem
from devmem.config import EmbeddingConfig, RetrievalConfig
from devmem.errors import EmbeddingError, EmbeddingMismatchError, TextsRefusedError
from devmem.models import TokenEmbedding
from devmem.models.embedder import CombinedEmbedder
from devmem.stores import Embedder, MemoryQuery, StoreSetup, Vector
from devmem.testing import EmbeddingProviderSuite, HashEmbedder, HashTokenEmbedder
from devmem_stores.simple import SimpleConfig, SimpleMemory


class TestSuite(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return CombinedEmbedder(HashEmbedder(32), HashTokenEmbedder(64))


class English(HashTokenEmbedder):
    """Knows no text with a Chinese character."""

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        found = super().embed_tokens(texts)
        return [replace(one, known=float(text.isascii())) for text, one in zip(texts, found, strict=True)]


def test_vectors_are_of_the_first_model_and_tokens_of_the_second() -> None:
    (made,) = CombinedEmbedder(HashEmbedder(32), HashTokenEmbedder(64)).embed_tokens(["green tea"])
    np.testing.assert_array_equal(made.vector, HashEmbedder(32).vector("green tea"))
    np.testing.assert_array_equal(made.tokens, HashTokenEmbedder(64).embed_tokens(["green tea"])[0].tokens)


def test_a_text_that_the_second_model_cannot_read_keeps_its_vector() -> None:
    tea, chinese = CombinedEmbedder(HashEmbedder(32), English(64)).embed_tokens(["tea", "喝茶"])
    assert (len(tea.tokens), len(chinese.tokens)) == (1, 0)
    assert chinese.known == 1
    np.testing.assert_array_equal(chinese.vector, HashEmbedder(32).vector("喝茶"))


class Picky(HashEmbedder):
    """Refuses coffee."""

    def embed(self, texts: Sequence[str]) -> Vector:
        refused = {at: "no coffee" for at, text in enumerate(texts) if text == "coffee"}
        vectors = super().embed([text for text in texts if text != "coffee"])
        if refused:
            raise TextsRefusedError(refused, vectors)
        return vectors


def test_a_text_that_the_first_model_refuses_has_no_tokens_either() -> None:
    with pytest.raises(TextsRefusedError) as caught:
        CombinedEmbedder(Picky(32), HashTokenEmbedder(64)).embed_tokens(["tea", "coffee", "milk"])
    assert caught.value.refused == {1: "no coffee"}
    assert [one.words for one in caught.value.made] == [("tea",), ("milk",)]


def test_a_model_without_token_vectors_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="a provider without token vectors; `minilm`"):
        CombinedEmbedder(HashEmbedder(), HashEmbedder())


def opened(path: str, *, tokens: bool) -> SimpleMemory:
    named = EmbeddingConfig(provider="minilm") if tokens else None
    config = SimpleConfig(
        memory_path=path, embedding=EmbeddingConfig(provider="openai"), retrieval=RetrievalConfig(tokens=named)
    )
    models = {"openai": HashEmbedder(32, name="service"), "minilm": HashTokenEmbedder(64, name="tokens")}
    setup = StoreSetup(
        name="notes", store_type="simple", config=config, open_embedder=lambda given: models[given.provider]
    )
    return SimpleMemory(setup)


def test_a_service_gets_late_interaction() -> None:
    """Without token vectors a hit has no late-interaction score."""
    for tokens in (False, True):
        with closing(opened("", tokens=tokens)) as store:
            store.add([MemoryItem(content_summary="Ann drinks oolong."), MemoryItem(content_summary="Bo is out.")])
            hit = store.search(MemoryQuery(text="What does Ann drink?", limit=1))[0]
        assert hit.item.content_summary == "Ann drinks oolong."
        assert (hit.rerank is not None) is tokens


def test_another_token_model_is_another_model(tmp_path: Path) -> None:
    path = str(tmp_path / "notes.db")
    with closing(opened(path, tokens=True)) as store:
        store.add([MemoryItem(content_summary="Ann drinks oolong.")])
        assert store.info().embedding == "service+tokens:tokens"
    with pytest.raises(EmbeddingMismatchError), closing(opened(path, tokens=False)) as store:
        store.load()


def test_tokens_without_an_embedding_or_a_comparison_are_refused() -> None:
    tokens = EmbeddingConfig()
    with pytest.raises(ValueError, match="needs an `embedding:` block"):
        SimpleConfig(retrieval=RetrievalConfig(tokens=tokens))
    with pytest.raises(ValueError, match="compares no tokens"):
        RetrievalConfig.model_validate({"tokens": {}, "reranker": {"type": "none"}})
