"""A query of a collection."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import wraps
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from devmem.errors import FilterError
from devmem.model.items import MemoryItem, Scope, Vector
from devmem.models.embedder import TokenEmbedding
from devmem.search.conditions import Condition, Scalar, comparable_number, same_value

SCOPE_PARTS: Final = tuple(part.name for part in fields(Scope))
"""Names of the parts of a scope."""
VALUE_KEYS: Final = (*SCOPE_PARTS, "source_kind", "source_name")
SEQUENCE_KEY: Final = "sequence"
"""Metadata key of an item's position, a number, among those of the same event time."""
_METADATA: Final = "metadata."
MAX_DEPTH: Final = 50
"""Number of levels that filters may be nested; databases limit the depth of a condition."""


class Order(StrEnum):
    """Order in which items are listed."""

    STORED = "stored"
    """In which they were stored; a new version of an item counts as stored last."""
    EVENT = "event"
    """By event time, or creation time where there is none; then by the number in the metadata `sequence`, those
    without one first; then as stored."""


def event_key(item: MemoryItem) -> tuple[float, float]:
    """Return the key of `Order.EVENT`, which a stable sort of items in the order of storing needs."""
    time = item.created_at if item.event_time is None else item.event_time
    sequence = item.metadata.get(SEQUENCE_KEY)
    if isinstance(sequence, bool) or not isinstance(sequence, int | float):
        return time, -math.inf
    return time, comparable_number(sequence)


def metadata_key(key: str) -> str | None:
    """Return the metadata key of a key such as `metadata.room`; None for a scope part, `source_kind` or `source_name`.

    Raises:
        FilterError: it is neither.
    """
    if key.startswith(_METADATA) and key != _METADATA:
        return key.removeprefix(_METADATA)
    if key in VALUE_KEYS:
        return None
    raise FilterError("key", f"expected one of {', '.join(VALUE_KEYS)} or metadata.KEY, not {key!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Predicate on items; a field that is None or empty does not restrict. Expired items never match.

    Raises `FilterError` for a value that a field cannot have. An empty name is a name like any other, and does not mean
    "unscoped"; `devmem.open`, the manager and the command line refuse it.
    """

    scope: Scope = field(default_factory=Scope)
    """Each part that is set must equal the item's."""
    include_unscoped: bool = False
    """Whether an item that is unscoped in a part of `scope` matches there too."""
    unbound: tuple[str, ...] = ()
    """Names of scope parts, such as `user`, in which a matching item is unscoped."""
    scope_in: Mapping[str, Condition] = field(default_factory=dict)
    """Conditions on scope parts, by name: `{"agent": one_of("writer", "editor")}`."""
    after: float | None = None
    """Earliest event time, or creation time where there is none, inclusive (seconds since the epoch)."""
    before: float | None = None
    """Latest event time, or creation time where there is none, exclusive (seconds since the epoch)."""
    source_kind: str | Condition | None = None
    source_name: str | Condition | None = None
    min_trust: float = 0.0
    metadata: Mapping[str, Scalar | Condition] = field(default_factory=dict)
    """Top-level keys of the item's metadata with the values, or conditions, that they must have; `True` and `1` are
    different values."""
    any_of: tuple[Filter, ...] = ()
    """Filters of which at least one must match, beside all other fields."""

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.unbound).difference(SCOPE_PARTS)):
            raise FilterError("unbound", f"{unknown[0]!r}, which is no part of a scope ({', '.join(SCOPE_PARTS)})")
        for name, value in self._named_values():
            _check_value(name, value)
        for name, value in (("after", self.after), ("before", self.before), ("min_trust", self.min_trust)):
            _check_number(name, value)
        for part in self.any_of:
            if not isinstance(part, Filter):
                raise FilterError("any_of", f"its parts are filters, not {type(part).__name__}")
        if self.any_of and self._depth() > MAX_DEPTH:
            raise FilterError("any_of", f"filters are nested more than {MAX_DEPTH} deep")

    def _depth(self) -> int:
        # Its parts were checked when they were made, so this ends soon.
        return 1 + max((part._depth() for part in self.any_of), default=0)  # noqa: SLF001 - of this class

    @property
    def or_unbound(self) -> bool:
        """Former name of `include_unscoped`."""
        _warn_of_former_name()
        return self.include_unscoped

    def _named_values(self) -> Iterator[tuple[str, object]]:
        """Return the values that are compared with fields of items, by their places in the filter."""
        for part in SCOPE_PARTS:
            if (name := getattr(self.scope, part)) is not None:
                yield f"scope.{part}", name
        for part, condition in self.scope_in.items():
            if part not in SCOPE_PARTS:
                raise FilterError("scope_in", f"{part!r} is no part of a scope ({', '.join(SCOPE_PARTS)})")
            if not isinstance(condition, Condition):
                raise FilterError(f"scope_in[{part!r}]", f"expected a condition such as `one_of`, not {condition!r}")
            yield f"scope_in[{part!r}]", condition
        yield from (("source_kind", self.source_kind), ("source_name", self.source_name))
        yield from ((f"metadata[{key!r}]", value) for key, value in self.metadata.items())

    def everything(self) -> bool:
        """Whether the filter admits every item that has not expired."""
        restricting = (self.scope != Scope(), self.unbound, self.scope_in, self.metadata, self.min_trust > 0)
        bounds = (self.after, self.before, self.source_kind, self.source_name)
        if any(restricting) or any(bound is not None for bound in bounds):
            return False
        return not self.any_of or any(part.everything() for part in self.any_of)

    def matcher(self, now: float) -> Callable[[MemoryItem], bool]:
        """Return `admits` at one time, for many items; it is faster where the filter admits everything."""
        if self.everything():
            return lambda item: not item.expired(now)
        return lambda item: self.admits(item, now)

    def admits(self, item: MemoryItem, now: float) -> bool:
        """Whether an item matches; `now` is in seconds since the epoch and decides what has expired."""
        return not item.expired(now) and self._matches(item)

    def _matches(self, item: MemoryItem) -> bool:
        time = item.created_at if item.event_time is None else item.event_time
        return (
            self.scope.admits(item.scope, include_unscoped=self.include_unscoped)
            and all(getattr(item.scope, part) is None for part in self.unbound)
            and all(wanted.admits(getattr(item.scope, part)) for part, wanted in self.scope_in.items())
            and (self.after is None or time >= self.after)
            and (self.before is None or time < self.before)
            and (self.source_kind is None or _admits(self.source_kind, item.provenance.kind.value))
            and (self.source_name is None or _admits(self.source_name, item.provenance.name))
            and (not self.min_trust or item.trust >= self.min_trust)
            and all(_admits(wanted, item.metadata.get(key)) for key, wanted in self.metadata.items())
            and (not self.any_of or any(part._matches(item) for part in self.any_of))  # noqa: SLF001 - of this class
        )


def _warn_of_former_name() -> None:
    message = "Filter(or_unbound=...) is now Filter(include_unscoped=...); the old name goes with the next release"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _accept_former_name(made: Callable[..., None]) -> Callable[..., None]:
    """Return an `__init__` that takes `or_unbound`, the former name of `include_unscoped`, with a warning."""

    @wraps(made)
    def init(self: Filter, **values: object) -> None:
        if "or_unbound" in values:
            _warn_of_former_name()
            values["include_unscoped"] = values.pop("or_unbound")
        made(self, **values)

    return init


# By `setattr`, so that type checkers keep the arguments that the fields declare.
setattr(Filter, "__init__", _accept_former_name(Filter.__init__))  # noqa: B010


def _admits(wanted: Scalar | Condition, found: JsonValue) -> bool:
    return wanted.admits(found) if isinstance(wanted, Condition) else same_value(found, wanted)


def _check_value(name: str, value: object) -> None:
    """Refuse what a field of an item is never compared with."""
    of_metadata = name.startswith("metadata[")
    if value is None and not of_metadata:
        return
    for wanted in value.values if isinstance(value, Condition) else (value,):
        if of_metadata and isinstance(wanted, str | int | float):
            continue
        if not isinstance(wanted, str):
            expected = "text, a number, a flag or a condition" if of_metadata else "text or a condition on text"
            raise FilterError(name, f"expected {expected}, not {wanted!r}")


def _check_number(name: str, value: object) -> None:
    if value is None and name != "min_trust":
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise FilterError(name, f"expected a number, not {value!r}")


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
