"""Base of the providers with a BERT model of their own: batches of texts, pooling, and token vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import groupby
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np
from threadpoolctl import ThreadpoolController

from devmem.config.store import EmbeddingParams
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
    )


_lock = Lock()
_running = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries takes milliseconds, setting their limit microseconds: look once.
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def limited_blas(threads: int) -> Iterator[None]:
    """Hold BLAS to `threads` threads inside the block.

    The limit belongs to the process. Of blocks that overlap in time, the first one's limit holds for all and
    the last one to end puts the old limit back: if each put back what it found, a limit could stay permanently.
    """
    global _running, _limiter
    with _lock:
        if _running == 0:
            _limiter = _controller().limit(limits=threads)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                _limiter.restore_original_limits()


# Abramowitz and Stegun, formula 7.1.26, exact to 1.5e-7:
# erfc(z) = t (a1 + t (a2 + ...)) exp(-z z) with t = 1 / (1 + p z).
_P = np.float32(0.3275911)
_A = [np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)]
_ROOT_HALF = np.float32(np.sqrt(0.5))


_BATCH_SIZE: Final = 16
"""Rows whose intermediate results stay in the CPU's cache between one operation and the next."""


def _activate(rows: Vector) -> Vector:
    """Apply `gelu` in place, a few rows at a time."""
    for start in range(0, len(rows), _BATCH_SIZE):
        rows[start : start + _BATCH_SIZE] = gelu(rows[start : start + _BATCH_SIZE])
    return rows


def gelu(x: Vector) -> Vector:
    """Return x times the normal distribution function of x, elementwise, as a new array; exact to 1e-6."""
    z = np.abs(x)
    z *= _ROOT_HALF
    t = z * _P
    t += 1
    np.reciprocal(t, out=t)
    tail = t * _A[0]
    for a in _A[1:]:
        tail += a
        tail *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail *= z
    # gelu(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2: no branch on the sign of x.
    np.abs(x, out=z)
    tail *= z
    tail *= np.float32(0.5)
    np.maximum(x, 0, out=z)
    z -= tail
    return z


_HEAD_WIDTH = WIDTH // HEADS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The weights of one layer; each matrix is (in, out)."""

    qkv: Vector
    """Query, key and value beside one another; the query is scaled by 1 / sqrt(_HEAD_WIDTH) already."""
    qkv_bias: Vector
    mixed: Vector
    mixed_bias: Vector
    mixed_norm: tuple[Vector, Vector]
    wide: Vector
    wide_bias: Vector
    narrow: Vector
    narrow_bias: Vector
    narrow_norm: tuple[Vector, Vector]

    def contiguous(self) -> _Layer:
        """Return the layer with matrices in the order by which BLAS takes two thirds of the time for a few rows."""
        qkv, mixed, wide, narrow = map(np.ascontiguousarray, (self.qkv, self.mixed, self.wide, self.narrow))
        return replace(self, qkv=qkv, mixed=mixed, wide=wide, narrow=narrow)


def _norm(weights: Mapping[str, Vector], name: str) -> tuple[Vector, Vector]:
    return weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]


def _layer(weights: Mapping[str, Vector], number: int) -> _Layer:
    name = f"encoder.layer.{number}"
    parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
    qkv = np.concatenate([weights[f"{part}.weight"] for part in parts])
    qkv_bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
    for array in (qkv, qkv_bias):
        array[:WIDTH] /= np.float32(np.sqrt(_HEAD_WIDTH))
    return _Layer(
        qkv=qkv.T,
        qkv_bias=qkv_bias,
        mixed=weights[f"{name}.attention.output.dense.weight"].T,
        mixed_bias=weights[f"{name}.attention.output.dense.bias"],
        mixed_norm=_norm(weights, f"{name}.attention.output"),
        wide=weights[f"{name}.intermediate.dense.weight"].T,
        wide_bias=weights[f"{name}.intermediate.dense.bias"],
        narrow=weights[f"{name}.output.dense.weight"].T,
        narrow_bias=weights[f"{name}.output.dense.bias"],
        narrow_norm=_norm(weights, f"{name}.output"),
    )


_RUN_THAT_COPIES: Final = 2


class NumpyBackend:
    """Runs on numpy alone, with the tokens of all texts in one matrix, so that nothing is padded."""

    def __init__(self, weights: Mapping[str, Vector], words: Rows, *, threads: int) -> None:
        """Take the model's weights under their official names, and its table of words."""
        self._threads, self._words, self._places = threads, words, places_of(weights)
        self._norm = _norm(weights, "embeddings")
        self._layers = [_layer(weights, number) for number in range(layers_of(weights))]
        self._runs = 0

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384)."""
        lengths = [len(ids) for ids in batch]
        places = np.concatenate([np.arange(length) for length in lengths])
        ids = [each for text in batch for each in text]
        hidden = _normalise(self._words[ids] + self._places[places], self._norm)
        groups = [(length, len(list(same))) for length, same in groupby(lengths)]
        # A command embeds one text, and would wait longer for the copies than they save.
        self._runs += 1
        if self._runs == _RUN_THAT_COPIES:
            self._layers = [layer.contiguous() for layer in self._layers]
        with limited_blas(self._threads):
            for layer in self._layers:
                hidden = _run(layer, hidden, groups)
        return np.split(hidden, np.cumsum(lengths[:-1]))


def _run(layer: _Layer, hidden: Vector, groups: Sequence[tuple[int, int]]) -> Vector:
    qkv = _linear(hidden, layer.qkv, layer.qkv_bias)
    mixed = _linear(_attend(qkv, groups), layer.mixed, layer.mixed_bias)
    mixed += hidden
    hidden = _normalise(mixed, layer.mixed_norm)
    wide = _activate(_linear(hidden, layer.wide, layer.wide_bias))
    narrow = _linear(wide, layer.narrow, layer.narrow_bias)
    narrow += hidden
    return _normalise(narrow, layer.narrow_norm)


def _linear(rows: Vector, matrix: Vector, bias: Vector) -> Vector:
    result: Vector = rows @ matrix
    result += bias
    return result


def _attend(qkv: Vector, groups: Sequence[tuple[int, int]]) -> Vector:
    """Apply self-attention within each text; `groups` are (length, number of texts of that length), in order."""
    result = np.empty((len(qkv), WIDTH), dtype=np.float32)
    start = 0
    for length, count in groups:
        end = start + length * count
        parts = qkv[start:end].reshape(count, length, 3, HEADS, _HEAD_WIDTH)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        weights = _softmax(query @ key.swapaxes(-1, -2))
        result[start:end] = (weights @ value).swapaxes(1, 2).reshape(end - start, WIDTH)
        start = end
    return result


def _softmax(scores: Vector) -> Vector:
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _normalise(rows: Vector, norm: tuple[Vector, Vector]) -> Vector:
    """Apply layer normalisation, in place."""
    scale, shift = norm
    rows -= rows.mean(axis=-1, keepdims=True)
    variance = np.einsum("ij,ij->i", rows, rows)[:, None] / np.float32(WIDTH)
    rows *= 1 / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
    rows *= scale
    rows += shift
    return rows


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
        return NumpyBackend(weights, words, threads=params.threads)
    from devmem.models.onnx_backend import OnnxBackend

    return OnnxBackend(weights, words, threads=params.threads)
