"""A query of a collection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from devmem.model.filters import Filter
from devmem.model.items import Vector
from devmem.models.embedder import TokenEmbedding
from devmem.search.spelling import SpellingCheck

DAY: Final = 86_400.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Which features count in a hit's score, beside the words and the meaning it shares with the query."""

    late_interaction: bool = True
    """Compare the best candidates token by token, where the model makes token vectors."""
    context: bool = True
    """Whether the turns before and after, the conversation and the speaker count."""
    time: Literal["boost", "narrow", "off"] = "boost"
    """Effect of a time in the query ("last week", "in May 2023"): items of that time gain, or nothing else is found."""
    recency: float = 0.02
    """Score contribution of recency for a new item; late interaction scores from about 0.2 to 0.7."""
    half_life: float = 30 * DAY
    """Seconds after which half of that contribution is left."""
    importance: float = 0.0
    """Score contribution of the metadata `importance: 1`."""
    diversity: float = 0.0
    """From 0, by score alone, to 1, by difference from the hits chosen so far (maximal marginal relevance)."""
    collapse: bool = True
    """Of hits that say the same on the same day only the best is returned."""
    focus: bool = False
    """Whether of a message that asks something the other sentences, such as small talk, count little; see
    `QueryText`. What asks for more of a text, or for its contradictions, needs all of it."""
    spelling: bool = False
    """Whether a store looks for misspelled words in the query; see `SearchQuery.spelling`."""
    depth: int = 200
    """Maximum number of candidates that are compared token by token."""


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
    all_known = known.all()
    told = values if all_known else values[known]
    low, high = told.min(), told.max()
    if high - low < 1e-12:
        return known.astype(np.float64)
    spread = (values - low) / (high - low)
    return np.asarray(spread if all_known else np.where(known, spread, 0.0), dtype=np.float64)


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


MAX_QUERY_CHARACTERS: Final = 10_000
"""Length up to which the text of a query is analysed: a tenth of a second at most, where a megabyte takes 40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A query of a collection."""

    text: str = ""
    """Matched against the items' full text, up to `MAX_QUERY_CHARACTERS`; blank means that words do not count."""
    vector: Vector | None = None
    """The query's embedding, unit length, shape (dimension,); None means that similarity does not count."""
    limit: int = 10
    """Maximum number of hits."""
    min_similarity: float = -1.0
    """Hits whose similarity is known and lower are left out."""
    min_relevance: float | None = None
    """Hits of a lower score are left out, so that a question that nothing answers can find nothing; None leaves out
    none. The score is that of `Hit.score` before any reranker: see docs/retrieval.md for what values mean."""
    where: Filter = field(default_factory=Filter)
    tokens: TokenEmbedding | None = None
    """The query's token vectors; None searches without late interaction."""
    weights: Weights | None = None
    """Rank by meaning and words alone, with these weights; None sums up all features as `ranking` says."""
    ranking: Ranking = field(default_factory=Ranking)
    candidates: int = 200
    """Maximum number of candidates by each signal (at least `limit`)."""
    now: datetime | float | None = None
    """Time of the question, from which "last week" and recency count; None takes the clock's. Days are those of a
    `datetime`'s zone, or for seconds since the epoch of the machine's."""
    spelling: SpellingCheck | None = None
    """How misspelled words of `text` are found and replaced; None searches for them unchanged."""
    corrected: Mapping[str, str] = field(default_factory=dict)
    """Misspelled words that were replaced already, each with the word in its place; reported."""
    explain: bool = False
    """Whether to report what was cut and why; this takes longer."""
