"""A search's query and the filter that narrows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from pydantic import JsonValue

from devmem.embedding import TokenEmbedding
from devmem.model.items import MemoryItem, Scope, Vector
from devmem.ranking import Ranking, Weights

MAX_QUERY_CHARACTERS: Final = 10_000
"""Length up to which the text of a query is analysed: a tenth of a second at most, where a megabyte takes 40."""
SCOPE_PARTS: Final = tuple(part.name for part in fields(Scope))
"""Names of the parts of a scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Predicate on items; a field that is None or empty does not restrict. Expired items never match."""

    scope: Scope = field(default_factory=Scope)
    """Each part that is set must equal the item's."""
    or_unbound: bool = False
    """Whether an item that is bound to nobody in a part of `scope` matches there too."""
    unbound: tuple[str, ...] = ()
    """Names of scope parts, such as `user`, in which a matching item is bound to nobody."""
    after: float | None = None
    """Earliest event time, or creation time where there is none, inclusive (seconds since the epoch)."""
    before: float | None = None
    """Latest event time, or creation time where there is none, exclusive (seconds since the epoch)."""
    source_kind: str | None = None
    source_name: str | None = None
    min_trust: float = 0.0
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Top-level keys of the item's metadata with the values they must have; `True` and `1` are different values."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.unbound) - set(SCOPE_PARTS)):
            raise ValueError(f"`unbound` names {unknown[0]!r}, which is no part of a scope ({', '.join(SCOPE_PARTS)})")

    def everything(self) -> bool:
        """Whether the filter admits every item that has not expired."""
        return self == Filter()

    def admits(self, item: MemoryItem, now: float) -> bool:
        """Whether an item matches; `now` is in seconds since the epoch and decides what has expired."""
        time = item.created_at if item.event_time is None else item.event_time
        return (
            not item.expired(now)
            and self.scope.admits(item.scope, or_unbound=self.or_unbound)
            and all(getattr(item.scope, part) is None for part in self.unbound)
            and (self.after is None or time >= self.after)
            and (self.before is None or time < self.before)
            and self.source_kind in (None, item.provenance.kind.value)
            and self.source_name in (None, item.provenance.name)
            and (not self.min_trust or item.trust >= self.min_trust)
            and all(_same_value(item.metadata.get(key), wanted) for key, wanted in self.metadata.items())
        )


def _same_value(found: JsonValue, wanted: str | float) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return comparable_number(found) == comparable_number(wanted)
    return found == wanted


def comparable_number(value: float) -> float:
    """Return a number as a database reads it from JSON: an integer of more than 64 bits becomes a float."""
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


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
