"""MaxSim: each token of the query finds its best match among a text's tokens.

The operator is that of ColBERT (Khattab and Zaharia, SIGIR 2020), with a weight for each of the query's tokens; the
texts' tokens are the signs of their components (`devmem.embedding.tokens`), the query's are whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.embedding import TokenCodes
from devmem.items import Vector

_SIGN_SHARE: Final = np.float32(np.sqrt(2 / np.pi))
"""Cosine of a normally distributed vector and its signs, for long vectors."""

_BLOCK: Final = 128
_MOST_TOKENS: Final = 24
"""Of a long question so many tokens are compared, those of the rarest words."""

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QueryTokens:
    """The query's tokens and what each of them counts."""

    vectors: Vector
    """Rows of unit length, shape (tokens, dimension)."""
    weights: Scores
    """Add up to 1, shape (tokens,)."""

    def best_matches(self, codes: Sequence[TokenCodes]) -> Scores:
        """Estimate the cosine of each query token and the token of each text that is nearest to it.

        Args:
            codes: of each text's tokens; no text is without any.

        Returns:
            shape (query tokens, texts).
        """
        counts = [len(one) for one in codes]
        products = self._products(np.concatenate(codes))
        starts = np.cumsum([0, *counts[:-1]])
        found: Scores = np.maximum.reduceat(products, starts, axis=1)
        return found

    def _products(self, codes: TokenCodes) -> Scores:
        """Estimate the cosine of each query token and each token, shape (query tokens, tokens)."""
        dimension = self.vectors.shape[1]
        turned = np.ascontiguousarray(self.vectors.T)
        products = np.empty((len(codes), len(self.vectors)), dtype=np.float32)
        # In blocks that stay in the processor's cache once they are unpacked.
        for start in range(0, len(codes), _BLOCK):
            bits = np.unpackbits(codes[start : start + _BLOCK], axis=1, count=dimension)
            np.matmul(bits.astype(np.float32), turned, out=products[start : start + _BLOCK])
        # With bits of 0 and 1 for signs of -1 and 1: sum(q * sign) = 2 * sum(q * bit) - sum(q).
        products *= 2
        products -= self.vectors.sum(axis=1)
        products /= np.float32(np.sqrt(dimension)) * _SIGN_SHARE
        return products.T

    def score(self, matches: Scores) -> Scores:
        """Give the weighted mean of the query tokens' matches, shape (texts,)."""
        return self.weights @ matches


def weigh(vectors: Vector, frequencies: Sequence[int], texts: int) -> QueryTokens | None:
    """Weigh each of a query's tokens by how rare its word is among the texts; None for a query without tokens.

    Args:
        vectors: of the query's tokens, shape (tokens, dimension).
        frequencies: in how many texts the word of each token occurs; -1 for what is no word and counts nothing.
        texts: how many there are.
    """
    known = np.array(frequencies, dtype=np.float64)
    weights = np.where(known >= 0, np.log1p(texts / (np.maximum(known, 0) + 1)), 0.0)
    if not weights.any():
        return None
    kept = np.sort(np.argsort(-weights, kind="stable")[:_MOST_TOKENS])
    kept = kept[weights[kept] > 0]
    return QueryTokens(vectors=vectors[kept], weights=(weights[kept] / weights[kept].sum()).astype(np.float32))
