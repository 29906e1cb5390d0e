"""The forward pass in numpy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from threading import Lock
from typing import Any, Final

import numpy as np
from threadpoolctl import ThreadpoolController

from devmem.model.items import Vector
from devmem.models.bert import HEADS, LAYER_NORM_EPSILON, WIDTH, Rows, layers_of, places_of

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


_HEAD_WIDTH: Final = WIDTH // HEADS
_QUERY_SCALE: Final = np.float32(1 / np.sqrt(_HEAD_WIDTH))

_SMALL_KERNELS: Final = frozenset({"SkylakeX", "Cooperlake", "Sapphirerapids"})
"""Architectures for which OpenBLAS multiplies small matrices without copying them into an order of its own first."""
_BLOCK_ROWS: Final = 20
"""Rows of a product with a panel, which make at most a million multiplications: OpenBLAS's limit of a small one."""
_PANEL_COLUMNS: Final = {WIDTH: 64, 4 * WIDTH: 32}
"""Columns of a panel, by the number of its rows."""
_STORED_COLUMNS: Final = 32
"""Columns of a panel of the weights in the order of the file."""


@cache
def _has_small_kernels() -> bool:
    return any(getattr(library, "architecture", None) in _SMALL_KERNELS for library in _controller().lib_controllers)


class _Linear:
    """A linear layer, or several beside one another.

    BLAS copies the weights for each product unless the product is small, and for a query the copies take most of the
    time. So the weights are divided into panels of some columns, and the rows of a batch into blocks.
    """

    def __init__(self, weights: Mapping[str, Vector], *names: str) -> None:
        """Take the weights, each stored as (out, in), and the biases of the named layers."""
        self._stored = [weights[f"{name}.weight"] for name in names]
        self._bias = np.concatenate([weights[f"{name}.bias"] for name in names])
        self._panels = [_panels(matrix, _STORED_COLUMNS) for matrix in self._stored]
        self._block = _BLOCK_ROWS

    def arrange(self) -> None:
        """Copy the weights into the order in which a product is fastest: for a query three times as fast as stored."""
        matrix = np.concatenate(self._stored)
        if _has_small_kernels():
            self._panels = [np.ascontiguousarray(_panels(matrix, _PANEL_COLUMNS[matrix.shape[1]]))]
        else:
            self._panels, self._block = [np.ascontiguousarray(_panels(matrix, len(matrix)))], 0
        self._stored = []

    def __call__(self, rows: Vector) -> Vector:
        """Return the layer's output for each row."""
        result = np.empty((len(rows), len(self._bias)), dtype=np.float32)
        for block in _blocks(len(rows), self._block):
            start = 0
            for panels in self._panels:
                count, _, columns = panels.shape
                end = start + count * columns
                np.matmul(rows[block], panels, out=result[block, start:end].reshape(-1, count, columns).swapaxes(0, 1))
                start = end
        result += self._bias
        return result


def _panels(matrix: Vector, columns: int) -> Vector:
    """Return a view of weights stored as (out, in), of shape (out / columns, in, columns)."""
    return matrix.reshape(-1, columns, matrix.shape[1]).swapaxes(1, 2)


def _blocks(rows: int, most: int) -> Iterator[slice]:
    """Divide rows into blocks of about equal size of at most `most` rows; 0 leaves them together."""
    count = -(-rows // most) if most else 1
    for number in range(count):
        yield slice(rows * number // count, rows * (number + 1) // count)


class _Norm:
    """A layer normalisation."""

    def __init__(self, weights: Mapping[str, Vector], name: str) -> None:
        self._scale, self._shift = weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"]

    def __call__(self, rows: Vector) -> Vector:
        """Normalise rows in place."""
        rows -= rows.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows)[:, None] / np.float32(WIDTH)
        rows *= 1 / np.sqrt(variance + np.float32(LAYER_NORM_EPSILON))
        rows *= self._scale
        rows += self._shift
        return rows


class _Layer:
    """A layer of the encoder."""

    def __init__(self, weights: Mapping[str, Vector], name: str) -> None:
        inputs = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        self._qkv = _Linear(weights, *inputs)
        self._mixed = _Linear(weights, f"{name}.attention.output.dense")
        self._mixed_norm = _Norm(weights, f"{name}.attention.output")
        self._wide = _Linear(weights, f"{name}.intermediate.dense")
        self._narrow = _Linear(weights, f"{name}.output.dense")
        self._narrow_norm = _Norm(weights, f"{name}.output")

    def arrange(self) -> None:
        """See `_Linear.arrange`."""
        for linear in (self._qkv, self._mixed, self._wide, self._narrow):
            linear.arrange()

    def __call__(self, hidden: Vector, groups: Sequence[tuple[int, int]]) -> Vector:
        """Return the layer's output; `groups` are those of `_attend`."""
        mixed = self._mixed(_attend(self._qkv(hidden), groups))
        mixed += hidden
        hidden = self._mixed_norm(mixed)
        narrow = self._narrow(_activate(self._wide(hidden)))
        narrow += hidden
        return self._narrow_norm(narrow)


_RUN_THAT_ARRANGES: Final = 2


class NumpyBackend:
    """Runs on numpy alone, with the tokens of all texts in one matrix, so that nothing is padded."""

    def __init__(self, weights: Mapping[str, Vector], words: Rows, *, threads: int) -> None:
        """Take the model's weights under their official names, and its table of words."""
        self._threads, self._words, self._places = threads, words, places_of(weights)
        self._norm = _Norm(weights, "embeddings")
        self._layers = [_Layer(weights, f"encoder.layer.{number}") for number in range(layers_of(weights))]
        self._runs, self._lock = 0, Lock()

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384)."""
        lengths = [len(ids) for ids in batch]
        places = np.concatenate([np.arange(length) for length in lengths])
        ids = [each for text in batch for each in text]
        groups = [(length, len(list(same))) for length, same in groupby(lengths)]
        self._arrange()
        hidden = self._norm(self._words[ids] + self._places[places])
        with limited_blas(self._threads):
            for layer in self._layers:
                hidden = layer(hidden, groups)
        return np.split(hidden, np.cumsum(lengths[:-1]))

    def _arrange(self) -> None:
        """Arrange the weights for speed at the second run: a command embeds one text, and would wait for it longer."""
        with self._lock:
            self._runs += 1
            if self._runs == _RUN_THAT_ARRANGES:
                for layer in self._layers:
                    layer.arrange()


def _attend(qkv: Vector, groups: Sequence[tuple[int, int]]) -> Vector:
    """Apply self-attention within each text; `groups` are (length, number of texts of that length), in order."""
    qkv[:, :WIDTH] *= _QUERY_SCALE
    result = np.empty((len(qkv), WIDTH), dtype=np.float32)
    start = 0
    for length, count in groups:
        end = start + length * count
        parts = qkv[start:end].reshape(count, length, 3, HEADS, _HEAD_WIDTH)
        query, key, value = parts.transpose(2, 0, 3, 1, 4)
        weights = _softmax(query @ key.swapaxes(-1, -2))
        np.matmul(weights, value, out=result[start:end].reshape(count, length, HEADS, _HEAD_WIDTH).swapaxes(1, 2))
        start = end
    return result


def _softmax(scores: Vector) -> Vector:
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores
