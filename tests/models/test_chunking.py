"""Long texts: cut, or embedded in pieces that lose nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from devmem.errors import EmbeddingError
from devmem.models.embedding_providers import ChunkingEmbedder
from devmem.stores import EmbeddingParams, Vector
from devmem.testing import HashEmbedder


def chunking(**params: Any) -> tuple[ChunkingEmbedder, HashEmbedder]:
    model = HashEmbedder(16)
    return ChunkingEmbedder(model, EmbeddingParams(**params)), model


THREE = "First thing. Second one! Third is it?"
PIECES = ["First thing. ", "Second one! ", "Third is it?"]


def test_a_text_that_fits_reaches_the_model_as_it_is() -> None:
    embedder, model = chunking(use_chunking=True, max_length=len(THREE))
    vectors = embedder.embed([THREE, "  odd -- text;; "])
    assert (model.calls, model.texts) == (1, [THREE, "  odd -- text;; "])
    np.testing.assert_array_equal(vectors[0], model.vector(THREE))


def test_without_chunking_a_long_text_is_cut() -> None:
    embedder, model = chunking(max_length=20)
    embedder.embed(["a" * 21, "b" * 20])
    assert (model.calls, model.texts) == (1, ["a" * 20, "b" * 20])


def test_a_cut_never_leaves_only_blanks() -> None:
    embedder, model = chunking(max_length=20)
    embedder.embed([" " * 30 + "words"])
    assert (model.calls, model.texts) == (1, ["words"])


@pytest.mark.parametrize(
    ("strategy", "weights"), [("average", [1, 1, 1]), ("weighted", [1, 1 / 2, 1 / 3]), ("first", [1, 0, 0])]
)
def test_pieces_are_combined_by_the_strategy(strategy: str, weights: list[float]) -> None:
    embedder, model = chunking(use_chunking=True, chunk_strategy=strategy, max_length=30)
    (vector,) = embedder.embed([THREE])
    expected = sum(w * model.vector(p) for w, p in zip(weights, PIECES, strict=True))
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), rtol=1e-5)
    assert vector.dtype == np.float32


def test_all_pieces_of_all_texts_go_in_one_call() -> None:
    embedder, model = chunking(use_chunking=True, max_length=30)
    vectors = embedder.embed(["short", THREE, "also short"])
    assert (model.calls, model.texts) == (1, ["short", *PIECES, "also short"])
    np.testing.assert_allclose(vectors[0], model.vector("short"), rtol=1e-5)
    np.testing.assert_allclose(vectors[2], model.vector("also short"), rtol=1e-5)


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u3000"])
def test_a_blank_text_is_refused_before_anything_is_embedded(blank: str) -> None:
    embedder, model = chunking()
    with pytest.raises(EmbeddingError, match="text 1 is blank"):
        embedder.embed(["fine", blank])
    assert model.calls == 0


def test_one_text_in_place_of_many_is_refused() -> None:
    with pytest.raises(TypeError, match="a sequence of texts"):
        chunking()[0].embed("text")


def test_no_texts_make_no_call() -> None:
    embedder, model = chunking()
    assert embedder.embed([]).shape == (0, 16)
    assert model.calls == 0


def test_pieces_that_cancel_out_are_an_error_and_not_a_zero_vector() -> None:
    class Opposed(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vector:
            return np.array([[1, 0], [-1, 0]], dtype=np.float32)

    embedder = ChunkingEmbedder(Opposed(), EmbeddingParams(use_chunking=True, max_length=16))
    with pytest.raises(EmbeddingError, match="all zeros"):
        embedder.embed(["a" * 8 + "b" * 8 + " "])


def test_what_changes_vectors_changes_the_name() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"use_chunking": True},
        {"use_chunking": True, "max_length": 100},
        {"use_chunking": True, "chunk_strategy": "weighted"},
        {"use_chunking": True, "chunk_strategy": "first"},
    ]
    names = [chunking(**params)[0].identity.name for params in variants]
    assert len(set(names)) == len(variants)
    assert names[0] == "testing:hash:16"
    assert chunking(chunk_strategy="first", max_length=100)[0].identity.name == "testing:hash:16"
    assert all(chunking(**params)[0].identity.dimension == 16 for params in variants)
