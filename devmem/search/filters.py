"""A filter: a predicate on items, which every operation that takes one understands alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from devmem.errors import FilterError
from devmem.model.items import MemoryItem, Scope
from devmem.search.conditions import Condition, Scalar, comparable_number, same_value

SCOPE_PARTS: Final = tuple(part.name for part in fields(Scope))
"""Names of the parts of a scope."""
VALUE_KEYS: Final = (*SCOPE_PARTS, "source_kind", "source_name")
SEQUENCE_KEY: Final = "sequence"
"""Metadata key of an item's position, a number, among those of the same event time."""
_METADATA: Final = "metadata."


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

    Raises `FilterError` for a value that a field cannot have. An empty name is a name like any other, and not nobody;
    what opens a memory for people (`devmem.open`, the manager, the command line) refuses it.
    """

    scope: Scope = field(default_factory=Scope)
    """Each part that is set must equal the item's."""
    or_unbound: bool = False
    """Whether an item that is bound to nobody in a part of `scope` matches there too."""
    unbound: tuple[str, ...] = ()
    """Names of scope parts, such as `user`, in which a matching item is bound to nobody."""
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

    def _named_values(self) -> Iterator[tuple[str, object]]:
        """Return what is compared with an item's fields, by the name of the place in the filter."""
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
            self.scope.admits(item.scope, or_unbound=self.or_unbound)
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
