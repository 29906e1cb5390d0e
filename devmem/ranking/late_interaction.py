"""MaxSim: each token of the query finds its best match among a text's tokens.

The operator is that of ColBERT (Khattab and Zaharia, SIGIR 2020), with a weight for each of the query's tokens. The
texts' tokens are the signs of their components (`devmem.embedding.tokens`), the query's components are rounded to 16
steps: a product of both is a sum of four Hamming distances, one for each bit, as in RaBitQ (Gao and Long, SIGMOD 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import TokenCodes
from devmem.model.items import Vector

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGN_SHARE: Final = np.sqrt(2 / np.pi)
"""Cosine of a normally distributed vector and its signs, for long vectors."""

_BITS: Final = 4
_LARGEST: Final = 3.0
"""Range of the steps in root mean squares of a vector's components; the few beyond it take the last step."""
_CODE_BYTES: Final = 64
"""FAISS compares codes of 64 bytes four times as fast as those of 48."""
_BLOCK: Final = 8192
_LEAST_WEIGHT: Final = 0.12
"""Tokens that weigh less than this share of the heaviest are left out: common words do not tell texts apart."""
_MOST_TOKENS: Final = 24
"""Maximum number of tokens of a query that are compared, those of the rarest words."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryTokens:
    """The query's tokens and their weights."""

    vectors: Vector
    """Rows of unit length, shape (tokens, dimension)."""
    weights: Scores
    """Add up to 1, shape (tokens,)."""

    def best_matches(self, codes: TokenCodes, counts: Sequence[int] | NDArray[np.int64]) -> Scores:
        """Estimate the cosine of each query token and its nearest token in each text.

        Args:
            codes: of the tokens of all texts, one text after the other; rows may be longer than the codes, as
                `widened` makes them.
            counts: number of tokens of each text, at least 1.

        Returns:
            shape (query tokens, texts).
        """
        dimension = self.vectors.shape[1]
        starts = np.cumsum(counts) - np.asarray(counts)
        nearest = np.minimum.reduceat(self._distances(widened(codes)), starts, axis=1)
        _, step = self._levels
        # The components of both are odd multiples of half a step, and signs: each bit p adds 2**p times its product.
        products = step / 2 * (dimension * ((1 << _BITS) - 1) - 2 * nearest)
        return np.asarray(products / (np.sqrt(dimension) * _SIGN_SHARE), dtype=np.float32)

    def _distances(self, codes: TokenCodes) -> NDArray[np.int32]:
        """Return the Hamming distances between each query token's bits and each token, higher bits weighted more."""
        compare = _hamming()
        tokens, bits = len(self.vectors), self._bits
        total = np.empty((tokens, len(codes)), dtype=np.int32)
        for start in range(0, len(codes), _BLOCK):
            part = codes[start : start + _BLOCK]
            found = np.empty((tokens, _BITS, len(part)), dtype=np.int32)
            compare(bits, part, found)
            weighed = total[:, start : start + len(part)]
            weighed[:] = found[:, -1]
            for bit in reversed(range(_BITS - 1)):
                weighed += weighed
                weighed += found[:, bit]
        return total

    @cached_property
    def _levels(self) -> tuple[NDArray[np.uint8], Vector]:
        """The step of each component, and the length of a step for each token."""
        spread = np.linalg.norm(self.vectors, axis=1, keepdims=True) / np.sqrt(np.float32(self.vectors.shape[1]))
        largest = np.minimum(np.abs(self.vectors).max(axis=1, keepdims=True), _LARGEST * spread)
        last = (1 << _BITS) - 1
        step = np.maximum(2 * largest / last, np.finfo(np.float32).tiny)
        return np.clip(np.rint((self.vectors + largest) / step), 0, last).astype(np.uint8), step

    @cached_property
    def _bits(self) -> TokenCodes:
        """Bits of the levels, the lowest first, shape (tokens * bits, bytes)."""
        levels, _ = self._levels
        taken = (levels[:, np.newaxis, :] >> np.arange(_BITS, dtype=np.uint8)[:, np.newaxis]) & 1
        return widened(np.packbits(taken.reshape(-1, levels.shape[1]), axis=1))

    def score(self, matches: Scores) -> Scores:
        """Return the weighted mean of the query tokens' matches, shape (texts,)."""
        return self.weights @ matches


def widened(codes: TokenCodes) -> TokenCodes:
    """Return the codes padded with zeros to the length that is compared fastest."""
    width = code_width(codes.shape[1])
    if codes.shape[1] == width:
        return np.ascontiguousarray(codes)
    wide = np.zeros((len(codes), width), dtype=np.uint8)
    wide[:, : codes.shape[1]] = codes
    return wide


def code_width(width: int) -> int:
    """Return the length in bytes of the padded form of a code of `width` bytes."""
    return -(-width // _CODE_BYTES) * _CODE_BYTES


def hamming_distances(left: TokenCodes, right: TokenCodes) -> NDArray[np.int32]:
    """Return the Hamming distance of each code of one array and each of another, shape (left, right)."""
    found = np.empty((len(left), len(right)), dtype=np.int32)
    _hamming()(left, np.ascontiguousarray(right), found)
    return found


def _hamming() -> Callable[[TokenCodes, TokenCodes, NDArray[np.int32]], None]:
    """Return a function that fills its last argument with the Hamming distances of two arrays of codes."""
    import faiss

    raw: Any = faiss.hammings  # type: ignore[attr-defined] # FAISS's stubs do not know it.
    pointer = faiss.swig_ptr

    def compare(left: TokenCodes, right: TokenCodes, distances: NDArray[np.int32]) -> None:
        raw(pointer(left), pointer(right), len(left), len(right), left.shape[1], pointer(distances))

    return compare


def weigh(vectors: Vector, frequencies: Sequence[int], texts: int) -> QueryTokens | None:
    """Return a query's tokens weighted by the rarity of their words among the texts; None for a query without tokens.

    Args:
        vectors: of the query's tokens, shape (tokens, dimension).
        frequencies: number of texts with the word of each token; -1 for what is no word and counts nothing.
        texts: number of texts.
    """
    known = np.array(frequencies, dtype=np.float64)
    weights = np.where(known >= 0, np.log1p(texts / (np.maximum(known, 0) + 1)), 0.0)
    if not weights.any():
        return None
    weights = np.where(weights < _LEAST_WEIGHT * weights.max(), 0.0, weights)
    kept = np.sort(np.argsort(-weights, kind="stable")[:_MOST_TOKENS])
    kept = kept[weights[kept] > 0]
    return QueryTokens(vectors=vectors[kept], weights=(weights[kept] / weights[kept].sum()).astype(np.float32))
