"""The suite that every embedding provider has to pass."""

# ruff: noqa: S101 - a suite asserts
from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import pytest

from devmem.model.items import Vector
from devmem.models.embedder import Embedder, ModelIdentity, TokenEmbedder, TokenEmbedding, query_embedder, token_codes

TEXTS: Final = (
    "Ann moved the launch to June 2nd.",
    "She drinks oolong.",
    "x",
    "安娜把发布会改到了六月二日。",
    "1. Open the settings.\n2. Choose a language.\n",
    "The meeting about the budget took two hours. " * 20,
)
_TOLERANCE: Final = 1e-4
"""Largest difference of a component; a text's place in a batch may change the order of sums."""


class EmbeddingProviderSuite:
    """Tests of a provider; a subclass supplies the fixture `embedder`, what its factory makes or `open_embedder` opens.

    Equal configurations share one embedder, so `open_embedder` loads its model once for all tests.

        class TestMyProvider(EmbeddingProviderSuite):
            @pytest.fixture
            def embedder(self):
                return open_embedder(EmbeddingConfig(provider="mine"))
    """

    @pytest.fixture
    def queries(self, embedder: Embedder) -> Embedder:
        """The embedder of questions, which is `embedder` itself unless its model tells them apart."""
        return query_embedder(embedder)

    def test_a_text_gets_a_row_of_unit_length(self, embedder: Embedder) -> None:
        """Vectors are float32, finite and of unit length."""
        vectors = embedder.embed(TEXTS)
        assert vectors.dtype == np.float32
        assert len(vectors) == len(TEXTS)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_the_dimension_is_that_of_the_identity(self, embedder: Embedder) -> None:
        """The identity names the model, and its dimension where that is known before."""
        identity = embedder.identity
        assert isinstance(identity, ModelIdentity)
        assert identity.name.strip()
        assert identity.dimension in (None, embedder.embed(TEXTS[:1]).shape[1])

    def test_the_identity_stays(self, embedder: Embedder) -> None:
        """Embedding does not change the name: a collection would be refused the next time."""
        before = embedder.identity.name
        embedder.embed(TEXTS[:1])
        assert embedder.identity.name == before

    def test_a_text_gets_the_same_vector_alone_and_among_others(self, embedder: Embedder) -> None:
        """A vector depends on its text alone."""
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        np.testing.assert_allclose(embedder.embed(TEXTS[::-1])[::-1], alone, atol=_TOLERANCE)

    def test_different_texts_differ(self, embedder: Embedder) -> None:
        """No two texts share a vector."""
        vectors = embedder.embed(TEXTS)
        products = vectors @ vectors.T
        assert (products[~np.eye(len(TEXTS), dtype=np.bool_)] < 1 - _TOLERANCE).all()

    def test_threads_do_not_disturb_one_another(self, embedder: Embedder) -> None:
        """Several threads may embed at the same time."""
        expected = embedder.embed(TEXTS)
        with ThreadPoolExecutor(4) as pool:
            for vectors in pool.map(embedder.embed, [TEXTS] * 8):
                np.testing.assert_allclose(vectors, expected, atol=_TOLERANCE)

    def test_questions_are_of_the_same_model(self, embedder: Embedder, queries: Embedder) -> None:
        """Questions and passages are compared, so they have one identity and one dimension."""
        assert queries.identity == embedder.identity
        assert queries.embed(TEXTS[:2]).shape == embedder.embed(TEXTS[:2]).shape

    def test_a_question_finds_its_answer(self, embedder: Embedder, queries: Embedder) -> None:
        """The most similar passage of a question in its own words is the one that has them."""
        asked = queries.embed(["When is the launch that Ann moved?"])[0]
        assert int(np.argmax(embedder.embed(TEXTS[:3]) @ asked)) == 0

    def test_token_vectors_align_with_words(self, embedder: Embedder, queries: Embedder) -> None:
        """Where the model has token vectors: a row of unit length a word, and the text's own vector beside them."""
        for one in (embedder, queries):
            made = _embed_tokens(one)
            if not made:
                continue
            np.testing.assert_allclose(np.stack([each.vector for each in made]), one.embed(TEXTS), atol=_TOLERANCE)
            for each in made:
                _check_tokens(each)

    def test_token_codes_are_of_one_width(self, embedder: Embedder) -> None:
        """The codes of all texts can be compared: every text has some, all of one width."""
        codes = [token_codes(made) for made in _embed_tokens(embedder)]
        assert all(len(one) for one in codes)
        assert len({one.shape[1] for one in codes}) <= 1


def _embed_tokens(embedder: Embedder) -> list[TokenEmbedding]:
    return embedder.embed_tokens(TEXTS) if isinstance(embedder, TokenEmbedder) else []


def _check_tokens(made: TokenEmbedding) -> None:
    lengths: Vector = np.linalg.norm(made.tokens, axis=1)
    assert made.tokens.shape[0] == len(made.words)
    assert made.tokens.dtype == np.float32
    assert 0 <= made.known <= 1
    np.testing.assert_allclose(lengths, 1, atol=1e-4)
