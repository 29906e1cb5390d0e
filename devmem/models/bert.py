"""Base of the providers with a BERT model of their own: batches of texts, pooling, and token vectors."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from threading import Lock
from typing import Final, Protocol

import numpy as np

from devmem.config.store import EmbeddingParams
from devmem.forks import follow_forks
from devmem.model.items import Vector
from devmem.models.embedder import (
    CommonDirections,
    ModelIdentity,
    TokenEmbedding,
    in_parallel,
    share_of_known,
    unit_rows,
    workers_of,
)

HEADS: Final = 12
WIDTH: Final = 384
LAYER_NORM_EPSILON: Final = 1e-12


class Rows(Protocol):
    """A table of word embeddings, shape (words, 384)."""

    def __getitem__(self, ids: Sequence[int], /) -> Vector:
        """Return the rows of some words, shape (len(ids), 384), float32."""
        ...


class Backend(Protocol):
    """Runs the model on token ids; safe to call from several threads."""

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384); no text is empty."""
        ...


def layers_of(weights: Mapping[str, Vector]) -> int:
    """Return the number of layers that a model's weights are of."""
    return sum(name.endswith("attention.self.query.weight") for name in weights)


def places_of(weights: Mapping[str, Vector]) -> Vector:
    """Return what is added to the embedding of a text's nth token, shape (positions, 384)."""
    types = weights["embeddings.token_type_embeddings.weight"]
    places: Vector = weights["embeddings.position_embeddings.weight"] + types[0]
    return places


_BATCH_TOKENS: Final = 512
"""Maximum number of tokens in one run of the model; with more, intermediate results leave the CPU's cache."""
_LEAST_BATCH_TOKENS: Final = 128
"""Tokens below which a run is not divided among threads; the time of a run then depends on reading the weights."""


class Tokenizer(Protocol):
    """Splits texts into the tokens of a model; safe to use from several threads."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, between those of the model's own first and last token."""
        ...

    def words(self, text: str) -> list[str]:
        """Return the word of each token that `encode` returns, without the model's own two."""
        ...

    def is_known(self, word: str) -> bool:
        """Whether the vocabulary has pieces for a word."""
        ...

    @property
    def vocabulary(self) -> Container[str]:
        """The words in small letters that have one token."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BertModel:
    """A loaded model."""

    tokenizer: Tokenizer
    backend: Backend
    of_texts: CommonDirections | None = None
    """Common part of all texts' vectors, which is taken off; None where they differ enough as they are."""
    vector_share: float = 0.0
    """See `TokenEmbedding.vector_share`."""
    of_tokens: CommonDirections | None = None
    """Common part of all token vectors, which is taken off."""


class LazyModel:
    """Loads a model when it is first needed; safe to use from several threads."""

    def __init__(self, load: Callable[[], BertModel]) -> None:
        self._load, self._lock = load, Lock()
        follow_forks(self)

    @cached_property
    def _loaded(self) -> BertModel:
        return self._load()

    def get(self) -> BertModel:
        """Return the model; raises what loading it raises."""
        with self._lock:
            return self._loaded


class BertEmbedder:
    """Embeds texts by the mean of their token vectors."""

    def __init__(self, model: LazyModel, identity: ModelIdentity, params: EmbeddingParams, *, prefix: str = "") -> None:
        """Prepare an embedder.

        Args:
            model: loaded at the first text.
            identity: the same one for each backend, as all make the same vectors.
            params: say how many texts one run of the model has, and how many runs there are at a time.
            prefix: put before every text, as the model was trained with; its tokens get no vectors.
        """
        self._model, self._identity, self._prefix = model, identity, prefix
        self._batch_size, self._workers = params.batch_size, workers_of(params)

    @property
    def identity(self) -> ModelIdentity:
        """Identity of the model."""
        return self._identity

    def embed(self, texts: Sequence[str]) -> Vector:
        """Embed the texts, shape (len(texts), 384); tokens beyond the model's limit are ignored."""
        return self._pooled([hidden for _, hidden in self._run(texts)])

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens in one pass."""
        found = list(self._run(texts))
        vectors = self._pooled([hidden for _, hidden in found])
        model, start = self._model.get(), self._start
        return [
            _with_tokens(vector, hidden[start:-1], model.tokenizer.words(text)[start - 1 :], model)
            for vector, (text, hidden) in zip(vectors, found, strict=True)
        ]

    def raw(self, texts: Sequence[str]) -> tuple[Vector, list[Vector]]:
        """Return the texts' vectors, shape (len(texts), 384), and those of their tokens, as the model makes them."""
        found = [hidden for _, hidden in self._run(texts)]
        return _means(found), [hidden[self._start : -1] for hidden in found]

    @cached_property
    def _start(self) -> int:
        """Place of the first token of the text itself, behind the model's own and those of the prefix."""
        return 1 + len(self._model.get().tokenizer.words(self._prefix))

    def _pooled(self, hidden: Sequence[Vector]) -> Vector:
        means, common = _means(hidden), self._model.get().of_texts
        return unit_rows(means if common is None else common.removed_from(means), source=self._identity.name)

    def _run(self, texts: Sequence[str]) -> Iterator[tuple[str, Vector]]:
        """Return each text, prefixed, with its token vectors, shape (tokens, 384), in order."""
        model = self._model.get()
        prefixed = [self._prefix + text for text in texts]
        tokens = [model.tokenizer.encode(text) for text in prefixed]
        hidden: dict[int, Vector] = {}
        batches = list(self._batches([len(ids) for ids in tokens]))
        inputs = [[tokens[number] for number in batch] for batch in batches]
        for batch, found in zip(batches, in_parallel(model.backend.forward, inputs, self._workers), strict=True):
            hidden |= zip(batch, found, strict=True)
        return ((text, hidden[number]) for number, text in enumerate(prefixed))

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Return the texts' numbers in batches, the longest texts first, so that little is padded."""
        share = -(-sum(lengths) // self._workers)
        most = min(max(share, _LEAST_BATCH_TOKENS), _BATCH_TOKENS)
        batch: list[int] = []
        for number in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            longest = lengths[batch[0]] if batch else 0
            if len(batch) == self._batch_size or longest * (len(batch) + 1) > most:
                yield batch
                batch = []
            batch.append(number)
        yield batch


def _means(hidden: Sequence[Vector]) -> Vector:
    return np.stack([tokens.mean(axis=0) for tokens in hidden])


def _with_tokens(vector: Vector, tokens: Vector, words: Sequence[str], model: BertModel) -> TokenEmbedding:
    known = share_of_known((word, model.tokenizer.is_known(word)) for word in words)
    if model.of_tokens is not None:
        tokens = model.of_tokens.removed_from(tokens)
    lengths = np.linalg.norm(tokens, axis=1, keepdims=True)
    return TokenEmbedding(
        vector=vector,
        tokens=tokens / lengths,
        words=tuple(words),
        vector_share=model.vector_share,
        known=known,
        vocabulary=model.tokenizer.vocabulary,
    )


def open_backend(params: EmbeddingParams, weights: Mapping[str, Vector], words: Rows) -> Backend:
    """Return onnxruntime where it is installed and nothing else is asked for, otherwise numpy.

    Args:
        params: name the backend and its threads.
        weights: all but the words, under the names of the official safetensors file.
        words: table of word embeddings.

    Raises:
        MissingExtraError: onnxruntime is asked for and not installed.
    """
    if params.backend == "numpy" or (params.backend == "auto" and find_spec("onnxruntime") is None):
        from devmem.models.numpy_backend import NumpyBackend

        return NumpyBackend(weights, words, threads=params.threads)
    from devmem.models.onnx_backend import OnnxBackend

    return OnnxBackend(weights, words, threads=params.threads)
