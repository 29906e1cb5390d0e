"""A query of a collection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from devmem.embedding import TokenEmbedding
from devmem.model.items import Vector
from devmem.ranking import Ranking, Weights
from devmem.search.filters import Filter

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
    now: float | None = None
    """Time of the question, from which "last week" and recency count, in seconds since the epoch; None takes the
    clock's."""
    explain: bool = False
    """Whether to report what was cut and why; this takes longer."""
