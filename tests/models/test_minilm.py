"""The `minilm` provider gives the official model's vectors, however it is called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from devmem.errors import EmbeddingError
from devmem.stores import Embedder, EmbeddingConfig, open_embedder

from .conftest import OpenMiniLM
from .golden import read_golden

TEXTS = [
    "I like tea.",
    "The deployment failed because the password had expired.",
    "x",
    "It rained all night. " * 20,
    "中文",
    "An invoice, two contracts and a blue folder.",
    "word " * 300,
]


def test_vectors_are_those_of_sentence_transformers(minilm: Embedder) -> None:
    texts, expected = read_golden()
    vectors = minilm.embed(texts)
    assert vectors.dtype == np.float32
    assert (vectors * expected).sum(axis=1).min() >= 0.99999
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_only_the_first_256_tokens_count(minilm: Embedder) -> None:
    first = "tea " * 254
    np.testing.assert_allclose(minilm.embed([first]), minilm.embed([first + "war " * 50]), atol=1e-6)


def test_several_workers_change_no_vector(open_minilm: OpenMiniLM, minilm: Embedder) -> None:
    several = open_minilm(workers=3, batch_size=2)
    np.testing.assert_allclose(several.embed(TEXTS * 2), np.concatenate([minilm.embed(TEXTS)] * 2), atol=2e-6)


def test_another_model_is_refused_at_once() -> None:
    with pytest.raises(EmbeddingError, match="provider: local"):
        open_embedder(EmbeddingConfig(model="all-mpnet-base-v2"))


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_its_own_names_are_accepted(name: str) -> None:
    assert open_embedder(EmbeddingConfig(model=name)).identity.dimension == 384


def test_onnxruntime_records_no_telemetry(tmp_path: Path) -> None:
    """Its builds from 1.32 on leave a device's id and a database of events in the cache, and send them."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    program = (
        "from devmem.config import EmbeddingConfig\n"
        "from devmem.models import open_embedder\n"
        "config = EmbeddingConfig.model_validate({'provider': 'minilm'})\n"
        "print(open_embedder(config).embed(['rain']).shape)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**environment, **home}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "(1, 384)\n", done.stderr
    left = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert [name for name in left if "devmem" not in name] == []
