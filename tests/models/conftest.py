"""The model's files, embedders that nobody else shares, and a service to talk to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmem.models.minilm import find_model, read_vocabulary
from devmem.stores import Embedder, EmbeddingConfig, EmbeddingParams, open_embedder
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
