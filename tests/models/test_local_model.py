"""Against sentence-transformers itself; needs torch, so `make test-local` runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem.models import TokenEmbedder, query_embedder
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, open_embedder
from devmem.testing import EmbeddingProviderSuite
from tools.embedding.make_golden_vectors import reference_vectors

from .conftest import read_golden

pytestmark = [
    pytest.mark.local_model,
    # Neither torch nor sentence-transformers is ours to fix.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module", autouse=True)
def offline() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def local(model_folder: Path) -> Embedder:
    params = EmbeddingParams(model_path=model_folder)
    return open_embedder(EmbeddingConfig(provider="local", params=params), shared=False)


def test_the_golden_vectors_are_what_sentence_transformers_gives_now(model_folder: Path) -> None:
    texts, golden = read_golden()
    np.testing.assert_allclose(reference_vectors(texts, model_folder), golden, atol=1e-5)


def test_minilm_agrees_with_sentence_transformers_on_texts_that_no_file_holds(
    minilm: Embedder, model_folder: Path
) -> None:
    rng = np.random.default_rng(7)
    words = " ".join(read_golden()[0]).split()
    texts = [" ".join(rng.choice(words, size=size)) for size in range(1, 40)]
    expected = reference_vectors(texts, model_folder)
    assert (minilm.embed(texts) * expected).sum(axis=1).min() >= 0.99999


def test_local_gives_the_models_vectors(local: Embedder) -> None:
    texts, golden = read_golden()
    vectors = local.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, golden, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


class TestSuite(EmbeddingProviderSuite):
    @pytest.fixture
    def embedder(self, local: Embedder) -> Embedder:
        return local


def test_prompts_of_the_folder_stand_before_texts(local: Embedder, model_folder: Path) -> None:
    params = EmbeddingParams(model_path=model_folder, query_prefix="query: ")
    asked = open_embedder(EmbeddingConfig(provider="local", params=params), shared=False)
    np.testing.assert_allclose(query_embedder(asked).embed(["tea"]), local.embed(["query: tea"]), atol=1e-5)
    assert asked.identity != local.identity
    queries = query_embedder(asked)
    assert isinstance(queries, TokenEmbedder)
    assert queries.embed_tokens(["tea time"])[0].words == ("tea", "time")


def test_loading_draws_nothing(model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    params = EmbeddingParams(model_path=model_folder)
    open_embedder(EmbeddingConfig(provider="local", params=params), shared=False).embed(["tea"])
    assert "Loading" not in capfd.readouterr().err
