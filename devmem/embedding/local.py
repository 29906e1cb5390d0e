"""The `local` provider: any sentence-transformers model in a folder on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from devmem.config.embedding import EmbeddingConfig
from devmem.embedding.base import ModelIdentity
from devmem.embedding.rows import unit_rows
from devmem.errors import EmbeddingError, MissingExtraError, ModelNotFoundError
from devmem.model.items import Vector

_SAMPLE = 1 << 16
"""Number of bytes read from the start, middle and end of a file of weights to tell models apart."""


class Provider:
    """Embeds with sentence-transformers; the model is loaded at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.params.model_path is None:
            raise EmbeddingError(
                "the embedding provider 'local' needs the folder of a sentence-transformers model: "
                "`embedding: {provider: local, params: {model_path: FOLDER}}`. Nothing is downloaded."
            )
        self._folder = config.params.model_path.expanduser()
        self._config = config
        self._lock = Lock()
        self._model: Any = None

    @cached_property
    def identity(self) -> ModelIdentity:
        """Identity with a digest of samples of the weights, which tells two models of one name apart.

        Raises:
            ModelNotFoundError: the folder holds no weights.
        """
        digest = hashlib.sha256()
        for path in _weights(self._folder):
            for sample in _samples(path):
                digest.update(sample)
        return ModelIdentity(name=f"local:{self._config.model or self._folder.name}@{digest.hexdigest()[:12]}")

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), dimension).

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            ModelNotFoundError: the folder holds no weights.
            EmbeddingError: sentence-transformers cannot load or run the model.
        """
        # One at a time: the tokenizers below refuse a second thread ("Already borrowed").
        with self._lock:
            if self._model is None:
                self._model = self._load()
            try:
                rows = self._model.encode(
                    list(texts), batch_size=self._config.params.batch_size, show_progress_bar=False
                )
            except Exception as error:
                raise EmbeddingError(f"{self._folder}: the model failed: {error}") from error
        return unit_rows(np.asarray(rows), source=self.identity.name)

    def _load(self) -> Any:  # noqa: ANN401 - sentence-transformers publishes no types
        _weights(self._folder)
        try:
            package = import_module("sentence_transformers")
        except ImportError as error:
            raise MissingExtraError(
                feature="the embedding provider 'local'",
                package="sentence-transformers",
                extra="local",
                advice="Before it, `pip install torch==2.13.0`, or pip may take a much larger build.",
            ) from error
        device = self._config.params.device
        try:
            return package.SentenceTransformer(str(self._folder), device=device, local_files_only=True)
        except Exception as error:
            raise EmbeddingError(f"{self._folder}: cannot be loaded on {device!r}: {error}") from error


def _weights(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("*.bin"))
    if not found:
        raise ModelNotFoundError(
            f"{folder}: no sentence-transformers model there (no .safetensors and no .bin file). "
            "`params.model_path` has to name the folder that `SentenceTransformer(...).save(FOLDER)` wrote."
        )
    return found


def _samples(path: Path) -> Iterator[bytes]:
    size = path.stat().st_size
    yield size.to_bytes(8, "little")
    with path.open("rb") as file:
        for start in (0, size // 2, max(0, size - _SAMPLE)):
            file.seek(start)
            yield file.read(_SAMPLE)
