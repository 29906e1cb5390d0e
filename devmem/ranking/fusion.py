"""Fusion of the two signals of candidates into one score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of meaning and words, each of which is normalized over the candidates first."""

    similarity: float = 0.5
    lexical: float = 0.5


def _spread(values: Scores, known: NDArray[np.bool_]) -> Scores:
    """Return the known values normalized to 0..1; unknown ones count as the lowest."""
    if not known.any():
        return np.zeros_like(values)
    low, high = values[known].min(), values[known].max()
    if high - low < 1e-12:
        return known.astype(np.float64)
    return np.where(known, (values - low) / (high - low), 0.0)


def fuse(similarity: Scores, lexical: Scores, weights: Weights) -> Scores:
    """Return a weighted sum of the candidates' signals, each normalized to 0..1 over the candidates.

    Args:
        similarity: cosine of each candidate, NaN where it has no embedding; shape (n,).
        lexical: BM25 of each candidate, 0 where no word occurs; shape (n,).
        weights: of the signals; only their ratio matters.

    Returns:
        Scores from 0 to 1, shape (n,).
    """
    known = ~np.isnan(similarity)
    parts = []
    if known.any():
        parts.append((weights.similarity, _spread(similarity, known)))
    if (lexical > 0).any():
        # Normalized from 0, not from the lowest: 0 is the score of a candidate with none of the words.
        parts.append((weights.lexical, lexical / lexical.max()))
    total = sum(weight for weight, _ in parts)
    if not total:
        return np.zeros_like(lexical)
    return np.asarray(sum(weight * values for weight, values in parts) / total, dtype=np.float64)
