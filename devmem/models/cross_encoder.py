"""The `cross_encoder` reranker: a sentence-transformers cross encoder in a folder on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from devmem.config.store import RerankerConfig
from devmem.errors import MissingExtraError, RerankerError
from devmem.text.files import expanded


class CrossEncoderReranker:
    """Encodes query and text together; the model is loaded at the first query."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._model: Any = None

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Score each text for the question, as the model was trained to.

        Raises:
            MissingExtraError: sentence-transformers is not installed.
            RerankerError: the model cannot be loaded or run.
        """
        if not texts:
            return []
        # One at a time: the tokenizers below refuse a second thread.
        with self._lock:
            try:
                model = self._load()
                found = model.predict([(query, text) for text in texts], show_progress_bar=False)
            except (OSError, RuntimeError, ValueError, TypeError) as error:
                raise RerankerError(f"{self._folder}: the cross encoder failed: {error}") from error
        return [float(score) for score in found]

    def _load(self) -> Any:  # noqa: ANN401 - sentence-transformers has no types
        if self._model is None:
            if not self._folder.is_dir():
                raise RerankerError(f"{self._folder}: there is no folder with a cross encoder; nothing is downloaded.")
            try:
                library = import_module("sentence_transformers")
            except ImportError as error:
                raise MissingExtraError(
                    feature="the reranker 'cross_encoder'", package="sentence-transformers", extra="local"
                ) from error
            self._model = library.CrossEncoder(str(self._folder), local_files_only=True)
        return self._model


def make(config: RerankerConfig, base_dir: Path) -> CrossEncoderReranker:
    """Make the reranker of a block.

    Raises:
        RerankerError: the block names no folder.
    """
    if config.model_path is None:
        raise RerankerError("the reranker 'cross_encoder' needs `model_path`, the folder of a model.")
    return CrossEncoderReranker(base_dir / expanded(config.model_path))
