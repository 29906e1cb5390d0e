"""The model's files, embedders that nobody else shares, and a service to talk to."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem.models.minilm import find_model, read_vocabulary
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, Vector, open_embedder
from tests.models.service import ChatService

OpenMiniLM = Callable[..., Embedder]
OpenOpenAI = Callable[..., Embedder]


@pytest.fixture(scope="session")
def model_folder() -> Path:
    return find_model(None)


@pytest.fixture(scope="session")
def vocabulary(model_folder: Path) -> list[str]:
    return read_vocabulary(model_folder)


@pytest.fixture
def open_minilm() -> OpenMiniLM:
    """Open a MiniLM that is loaded again."""

    def opened(**params: Any) -> Embedder:
        return open_embedder(EmbeddingConfig(params=EmbeddingParams(**params)), shared=False)

    return opened


@pytest.fixture(scope="session")
def minilm() -> Embedder:
    """The model, loaded once."""
    return open_embedder(EmbeddingConfig())


@pytest.fixture
def open_openai(service: ChatService) -> OpenOpenAI:
    """Open an embedder that asks the fake service."""

    def opened(*, api_key: str = "sk-secret", model: str | None = None, base_url: str = "", **params: Any) -> Embedder:
        block = {"provider": "openai", "model": model, "api_key": api_key, "base_url": base_url or service.address}
        config = EmbeddingConfig.model_validate({**block, "params": {"max_retries": 2, **params}})
        return open_embedder(config, shared=False)

    return opened


_FILE = Path(__file__).with_name("golden_minilm.json")


def read_golden() -> tuple[list[str], Vector]:
    """Return the texts and their vectors, shape (texts, 384)."""
    entries = json.loads(_FILE.read_text("utf-8"))
    rows = [np.frombuffer(base64.b64decode(entry["vector"]), dtype="<f4") for entry in entries]
    return [entry["text"] for entry in entries], np.stack(rows)
