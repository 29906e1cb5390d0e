"""The forward pass in numpy: layers of BERT over the tokens of many texts, with no padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from devmem.embedding.bert.backend import HEADS, LAYER_NORM_EPSILON, WIDTH, Rows, layers_of, places_of
from devmem.embedding.bert.blas import limited_blas
from devmem.embedding.bert.gelu import gelu
from devmem.model.items import Vector

_HEAD_WIDTH = WIDTH // HEADS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """The weights of one layer; each matrix is (out, in)."""

    qkv: Vector
    """Query, key and value below one another; the query is scaled by 1 / sqrt(_HEAD_WIDTH) already."""
    qkv_bias: Vector
    mixed: Vector
    mixed_bias: Vector
    mixed_norm: tuple[Vector, Vector]
    wide: Vector
    wide_bias: Vector
    narrow: Vector
    narrow_bias: Vector
    narrow_norm: tuple[Vector, Vector]


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
        qkv=qkv,
        qkv_bias=qkv_bias,
        mixed=weights[f"{name}.attention.output.dense.weight"],
        mixed_bias=weights[f"{name}.attention.output.dense.bias"],
        mixed_norm=_norm(weights, f"{name}.attention.output"),
        wide=weights[f"{name}.intermediate.dense.weight"],
        wide_bias=weights[f"{name}.intermediate.dense.bias"],
        narrow=weights[f"{name}.output.dense.weight"],
        narrow_bias=weights[f"{name}.output.dense.bias"],
        narrow_norm=_norm(weights, f"{name}.output"),
    )


class NumpyBackend:
    """Runs on numpy alone, with the tokens of all texts in one matrix, so that nothing is padded."""

    def __init__(self, weights: Mapping[str, Vector], words: Rows, *, threads: int) -> None:
        """Take the model's weights under their official names, and its table of words."""
        self._threads, self._words, self._places = threads, words, places_of(weights)
        self._norm = _norm(weights, "embeddings")
        self._layers = [_layer(weights, number) for number in range(layers_of(weights))]

    def forward(self, batch: Sequence[Sequence[int]]) -> list[Vector]:
        """Return each text's token vectors, shape (its tokens, 384)."""
        lengths = [len(ids) for ids in batch]
        places = np.concatenate([np.arange(length) for length in lengths])
        ids = [each for text in batch for each in text]
        hidden = _normalise(self._words[ids] + self._places[places], self._norm)
        groups = [(length, len(list(same))) for length, same in groupby(lengths)]
        with limited_blas(self._threads):
            for layer in self._layers:
                hidden = _run(layer, hidden, groups)
        return np.split(hidden, np.cumsum(lengths[:-1]))


def _run(layer: _Layer, hidden: Vector, groups: Sequence[tuple[int, int]]) -> Vector:
    qkv = _linear(hidden, layer.qkv, layer.qkv_bias)
    mixed = _linear(_attend(qkv, groups), layer.mixed, layer.mixed_bias)
    mixed += hidden
    hidden = _normalise(mixed, layer.mixed_norm)
    wide = gelu(_linear(hidden, layer.wide, layer.wide_bias))
    narrow = _linear(wide, layer.narrow, layer.narrow_bias)
    narrow += hidden
    return _normalise(narrow, layer.narrow_norm)


def _linear(rows: Vector, matrix: Vector, bias: Vector) -> Vector:
    result: Vector = rows @ matrix.T
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
