"""A search's query and the filter that narrows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from devmem.embedding import TokenEmbedding
from devmem.model.items import Scope, Vector
from devmem.ranking import Ranking, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which items are meant; a part that is None or empty does not restrict. Expired items never match."""

    scope: Scope = field(default_factory=Scope)
    """Every part of it that is set must be equal."""
    or_unbound: bool = False
    """An item that is bound to nobody in a part of the scope matches there too."""
    after: float | None = None
    """Event time, or creation where there is none, from then on (seconds since the epoch)."""
    before: float | None = None
    """Event time, or creation where there is none, before then (seconds since the epoch)."""
    source_kind: str | None = None
    source_name: str | None = None
    min_trust: float = 0.0
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Top-level keys of the item's metadata and the values they must have."""

    def everything(self) -> bool:
        """Say whether the filter lets every item through."""
        return self == Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """What to search for."""

    text: str = ""
    """Matched against the items' full text; blank means that words do not count."""
    vector: Vector | None = None
    """The query's embedding, unit length, shape (dimension,); None means that similarity does not count."""
    limit: int = 10
    """At most so many hits."""
    min_similarity: float = -1.0
    """Hits whose similarity is known and lower are left out."""
    where: Filter = field(default_factory=Filter)
    tokens: TokenEmbedding | None = None
    """The query's token vectors, for late interaction; None goes without."""
    weights: Weights | None = None
    """Rank by meaning and words alone, with these weights; None weighs all the evidence as `ranking` says."""
    ranking: Ranking = field(default_factory=Ranking)
    candidates: int = 200
    """So many of the best by each signal are looked at (at least `limit`)."""
    now: float | None = None
    """When the question is context, in seconds since the epoch: what "last week" and recency start from; None asks the
    clock."""
