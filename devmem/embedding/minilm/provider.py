"""The `minilm` provider: all-MiniLM-L6-v2 on this machine, without network, torch or key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

import numpy as np

from devmem.config.embedding import EmbeddingConfig, EmbeddingParams
from devmem.embedding.base import ModelIdentity
from devmem.embedding.minilm.backend import WIDTH, Backend
from devmem.embedding.minilm.files import find_model, read_vocabulary, weights_path
from devmem.embedding.minilm.safetensors import read_weights
from devmem.embedding.minilm.wordpiece import WordPiece
from devmem.embedding.rows import unit_rows
from devmem.embedding.tokens import TokenEmbedding
from devmem.errors import EmbeddingError, ModelNotFoundError
from devmem.model.items import Vector

_NAME = "all-MiniLM-L6-v2"
_NAMES = (None, _NAME, f"sentence-transformers/{_NAME}")
_MAX_TOKENS = 256
_TOKENS_AT_ONCE = 512
"""Maximum number of tokens in one run of the model; with more, intermediate results leave the CPU's cache."""


class Provider:
    """Embeds with all-MiniLM-L6-v2; the files are located, checked and loaded at the first text."""

    def __init__(self, config: EmbeddingConfig) -> None:
        if config.model not in _NAMES:
            raise EmbeddingError(
                f"the provider 'minilm' has one model, {_NAME}, not {config.model!r}. "
                "Leave `model` out, or use another one by `provider: local, params: {model_path: FOLDER}`."
            )
        self._params = config.params
        self._loading = Lock()
        self._loaded: tuple[WordPiece, Backend] | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model; both backends make the same vectors."""
        return ModelIdentity(name=f"minilm:{_NAME}", dimension=WIDTH)

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), 384); tokens beyond the first 256 of a text are ignored.

        Raises:
            ModelNotFoundError: the model's files are not on this machine.
            ModelDamagedError: they are not the official ones.
            MissingExtraError: `backend: onnx` is asked for and onnxruntime is not installed.
        """
        return unit_rows(np.stack([hidden.mean(axis=0) for _, hidden in self._run(texts)]), source=_NAME)

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass; raises what `embed` raises."""
        found = list(self._run(texts))
        vectors = unit_rows(np.stack([hidden.mean(axis=0) for _, hidden in found]), source=_NAME)
        pieces = self._load()[0]
        return [
            _with_tokens(vector, hidden[1:-1], tuple(pieces.words(text)), pieces)
            for vector, (text, hidden) in zip(vectors, found, strict=True)
        ]

    def _run(self, texts: Sequence[str]) -> Iterator[tuple[str, Vector]]:
        """Return each text with its token vectors, shape (tokens, 384), in order."""
        words, backend = self._load()
        tokens = [words.encode(text) for text in texts]
        hidden: dict[int, Vector] = {}
        for batch in self._batches([len(ids) for ids in tokens]):
            hidden |= zip(batch, backend.forward([tokens[number] for number in batch]), strict=True)
        return ((text, hidden[number]) for number, text in enumerate(texts))

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Return the texts' numbers in batches, the longest texts first, so that little is padded."""
        batch: list[int] = []
        for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else 0
            if len(batch) == self._params.batch_size or longest * (len(batch) + 1) > _TOKENS_AT_ONCE:
                yield batch
                batch = []
            batch.append(number)
        yield batch

    def _load(self) -> tuple[WordPiece, Backend]:
        with self._loading:
            if self._loaded is None:
                words, weights = _read(find_model(self._params.model_path))
                self._loaded = words, _open_backend(self._params, weights)
            return self._loaded


def _with_tokens(vector: Vector, tokens: Vector, words: tuple[str, ...], pieces: WordPiece) -> TokenEmbedding:
    known = sum(pieces.is_known(word) for word in words) / max(len(words), 1)
    lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
    return TokenEmbedding(vector=vector, tokens=tokens / lengths, words=words, known=known)


def _read(folder: Path) -> tuple[WordPiece, dict[str, Vector]]:
    try:
        return WordPiece(read_vocabulary(folder), max_tokens=_MAX_TOKENS), read_weights(weights_path(folder))
    except OSError as error:
        raise ModelNotFoundError(f"{folder}: the model's files cannot be read: {error}") from error


def _open_backend(params: EmbeddingParams, weights: dict[str, Vector]) -> Backend:
    if params.backend == "numpy" or (params.backend == "auto" and find_spec("onnxruntime") is None):
        from devmem.embedding.minilm.numpy_backend import NumpyBackend

        return NumpyBackend(weights, threads=params.threads)
    from devmem.embedding.minilm.onnx_backend import OnnxBackend

    return OnnxBackend(weights, threads=params.threads)
