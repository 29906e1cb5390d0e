"""Filters: predicates on items, which databases carry out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from operator import attrgetter
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from devmem.errors import FilterError
from devmem.model.border import clean_text
from devmem.model.conditions import Condition, Operator, Scalar, comparable_number, same_value, value_at
from devmem.model.items import MemoryItem, Scope, SourceKind
from devmem.model.times import parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemField:
    """A text of every item that filters compare and that items are counted by.

    From the table of them, `ITEM_FIELDS`, are made the columns of the databases and of the indexes in memory, the
    conditions of a filter in SQL, in memory and in Python, and the keys of filters in JSON, YAML and on the command
    line.
    """

    name: str
    """Name of its column, and of the attribute of `Filter`, or of `Scope`, that restricts it."""
    key: str
    """Its key in filters in JSON, YAML and on the command line."""
    of: Callable[[MemoryItem], str | None]
    """Returns its value; None where the item has none."""
    is_required: bool = False
    """Whether every item has one, so that its column is never null."""
    values: frozenset[str] | None = None
    """All values that it can have; None for any text."""


SCOPE_PARTS: Final = tuple(part.name for part in fields(Scope))
"""Names of the parts of a scope."""
OWN_FIELDS: Final = (
    ItemField(name="source_name", key="source", of=attrgetter("provenance.name"), is_required=True),
    ItemField(
        name="source_kind",
        key="source_kind",
        of=attrgetter("provenance.kind.value"),
        is_required=True,
        values=frozenset(kind.value for kind in SourceKind),
    ),
)
"""The fields that are no part of a scope; `Filter` has an attribute for each."""
ITEM_FIELDS: Final = (
    *(ItemField(name=part, key=part, of=attrgetter(f"scope.{part}")) for part in SCOPE_PARTS),
    *OWN_FIELDS,
)
NAMED_FIELDS: Final = tuple(each for each in ITEM_FIELDS if not each.is_required)
"""Those that an item need not have; where its properties are listed, each that it has is named by its key."""
_FIELDS_BY_NAME: Final = {each.name: each for each in ITEM_FIELDS}
SEQUENCE_KEY: Final = "sequence"
"""Metadata key of an item's position, a number, among those of the same event time."""
_METADATA: Final = "metadata."
MAX_DEPTH: Final = 50
"""Number of levels that filters may be nested; databases limit the depth of a condition."""
MAX_PARTS: Final = 1000
"""Number of filters and conditions on metadata in one filter."""
Wanted: TypeAlias = Scalar | Condition | Sequence[Condition]
"""The value that a key has to have, a condition on it, or several, all of which hold."""


def time_of(item: MemoryItem) -> float:
    """Return the time of an item's event, or of storing where that is not known: seconds since the epoch."""
    return item.created_at if item.event_time is None else item.event_time


def event_key(item: MemoryItem) -> tuple[float, float]:
    """Return the key of `Order.EVENT`, which a stable sort of items in the order of storing needs."""
    time = time_of(item)
    sequence = item.metadata.get(SEQUENCE_KEY)
    if isinstance(sequence, bool) or not isinstance(sequence, int | float):
        return time, -math.inf
    return time, comparable_number(sequence)


def metadata_key(key: str) -> str | None:
    """Return the metadata key of a key such as `metadata.room`; None for the name of an `ItemField`.

    Raises:
        FilterError: it is neither.
    """
    if key.startswith(_METADATA) and key != _METADATA:
        return key.removeprefix(_METADATA)
    if key in _FIELDS_BY_NAME:
        return None
    raise FilterError("key", f"expected one of {', '.join(_FIELDS_BY_NAME)} or metadata.KEY, not {key!r}")


def values_at(item: MemoryItem, key: str) -> list[Scalar | None]:
    """Return the values of a key such as `user` or `metadata.room`: of a list its elements, None where there is none.

    Raises:
        FilterError: items have no such key.
    """
    name = metadata_key(key)
    if name is None:
        return [_FIELDS_BY_NAME[key].of(item)]
    found = value_at(item.metadata, name)
    elements = found if isinstance(found, list | tuple) and found else [found]
    return [each if isinstance(each, str | int | float) else None for each in elements]


def kind_of(value: Scalar | None) -> int:
    """Return 0 for no value, 1 for a flag, 2 for a number, 3 for a text: values are ordered within their kind."""
    return 0 if value is None else 1 if isinstance(value, bool) else 3 if isinstance(value, str) else 2


def counted(found: Iterable[tuple[Scalar | None, int]]) -> list[tuple[Scalar | None, int]]:
    """Return each value with the sum of its numbers, the largest first; `True` and 1 are different values."""
    sums: dict[tuple[int, Scalar | None], int] = {}
    for value, count in found:
        name = kind_of(value), value
        sums[name] = sums.get(name, 0) + count
    order = sorted(sums.items(), key=lambda each: (-each[1], each[0][0], each[0][1] if each[0][0] else 0))
    return [(value, count) for (_, value), count in order]


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
    """Earliest event time, or creation time where there is none, inclusive (seconds since the epoch; a `datetime`
    or a `date` is taken as such)."""
    before: float | None = None
    """Latest event time, or creation time where there is none, exclusive (likewise)."""
    source_kind: str | Condition | None = None
    source_name: str | Condition | None = None
    min_trust: float = 0.0
    metadata: Mapping[str, Wanted] = field(default_factory=dict)
    """Keys of the item's metadata with the values, or conditions, that they must have; `True` and `1` are different
    values. `a.b` is the key of this name, where an item has it, and else the key `b` of the mapping `a`."""
    any_of: tuple[Filter, ...] = ()
    """Filters of which at least one must match, beside all other fields; `one | other` makes one."""
    all_of: tuple[Filter, ...] = ()
    """Filters that must all match, beside all other fields; `one & other` makes one where they name the same field."""
    none_of: tuple[Filter, ...] = ()
    """Filters of which none may match, beside all other fields; `~one` makes one. Expired items match no filter."""

    def __post_init__(self) -> None:
        self._check_values()
        for each, wanted in self.on_own_fields():
            object.__setattr__(self, each.name, _clean(wanted))
        # Compared with what the border let in.
        metadata = {clean_text(key): _clean(value) for key, value in self.metadata.items()}
        object.__setattr__(self, "metadata", metadata)
        for name in ("after", "before", "min_trust"):
            number = getattr(self, name)
            if isinstance(number, date) and name != "min_trust":
                object.__setattr__(self, name, parse_time(number))
            elif number is not None or name == "min_trust":
                _check_number(name, number)
        for name, part in self._parts():
            if not isinstance(part, Filter):
                raise FilterError(name, f"its parts are filters, not {type(part).__name__}")
        depth, size = self._measure()
        name = next((name for name, _ in self._parts()), "metadata")
        if depth > MAX_DEPTH:
            raise FilterError(name, f"filters are nested more than {MAX_DEPTH} deep")
        if size > MAX_PARTS:
            raise FilterError(name, f"more than {MAX_PARTS:,} parts; `one_of` compares a key with many values at once")

    def _check_values(self) -> None:
        """Refuse what the fields of an item are never compared with."""
        for name, parts in (("unbound", self.unbound), ("scope_in", self.scope_in)):
            if unknown := sorted(set(parts).difference(SCOPE_PARTS)):
                raise FilterError(name, f"{unknown[0]!r} is not a part of a scope ({', '.join(SCOPE_PARTS)})")
        for part, value in _parts_of(self.scope).items():
            _check_text(f"scope.{part}", value)
        for part, condition in self.scope_in.items():
            if not isinstance(condition, Condition):
                raise FilterError(f"scope_in[{part!r}]", f"expected a condition such as `one_of`, not {condition!r}")
            _check_text(f"scope_in[{part!r}]", condition)
        for each, wanted in self.on_own_fields():
            _check_text(each.name, wanted, each.values)
        for key, conditions in self.metadata.items():
            _check_metadata(f"metadata[{key!r}]", conditions)

    def on_own_fields(self) -> list[tuple[ItemField, str | Condition]]:
        """Return the fields outside of the scope that it restricts, each with the value or the condition."""
        return [(each, wanted) for each in OWN_FIELDS if (wanted := getattr(self, each.name)) is not None]

    def _parts(self) -> Iterator[tuple[str, Filter]]:
        """Yield the filters that this one is made of, each with the field that has it."""
        for name in ("any_of", "all_of", "none_of"):
            yield from ((name, part) for part in getattr(self, name))

    def _measure(self) -> tuple[int, int]:
        """Return the number of levels, and that of filters and conditions."""
        # Its parts were checked when they were made, so this ends soon.
        measured = [part._measure() for _, part in self._parts()]
        own = 1 + sum(len(conditions_of(wanted)) for wanted in self.metadata.values())
        return 1 + max((depth for depth, _ in measured), default=0), own + sum(size for _, size in measured)

    def __and__(self, other: Filter) -> Filter:
        """Return the filter that admits what both admit; different fields and keys stay those of one filter."""
        if not isinstance(other, Filter):
            return NotImplemented
        return self._merged(other) or replace(self, all_of=(*self.all_of, other))

    def __or__(self, other: Filter) -> Filter:
        """Return the filter that admits what one of both admits."""
        if not isinstance(other, Filter):
            return NotImplemented
        return Filter(any_of=(self, other))

    def __invert__(self) -> Filter:
        """Return the filter that admits what this one does not."""
        return Filter(none_of=(self,))

    def _merged(self, other: Filter) -> Filter | None:
        """Return both as one without further levels; None where they name the same field or key."""
        values: dict[str, Any] = {}
        everything = Filter()
        for each in fields(Filter):
            mine, theirs, default = (getattr(one, each.name) for one in (self, other, everything))
            if each.name in ("all_of", "none_of"):
                values[each.name] = (*mine, *theirs)
            elif each.name in ("metadata", "scope_in") and mine.keys().isdisjoint(theirs):
                values[each.name] = {**mine, **theirs}
            elif theirs == default:
                values[each.name] = mine
            elif mine == default:
                values[each.name] = theirs
            elif each.name == "unbound":
                values[each.name] = tuple(dict.fromkeys((*mine, *theirs)))
            elif each.name == "scope" and not _parts_of(mine).keys() & _parts_of(theirs).keys():
                values[each.name] = Scope(**_parts_of(mine), **_parts_of(theirs))
            else:
                return None
        # The flag says something of the scope beside it.
        widens = self.include_unscoped != other.include_unscoped
        return None if widens and Scope() not in (self.scope, other.scope) else Filter(**values)

    def everything(self) -> bool:
        """Whether the filter admits every item that has not expired."""
        restricting = (self.scope != Scope(), self.unbound, self.scope_in, self.metadata, self.none_of)
        is_bounded = self.min_trust > 0 or self.after is not None or self.before is not None
        if any(restricting) or is_bounded or self.on_own_fields():
            return False
        if not all(part.everything() for part in self.all_of):
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
        # Nothing is made for what does not restrict: a scan asks this of every item.
        if not self.scope.admits(item.scope, include_unscoped=self.include_unscoped):
            return False
        for each in OWN_FIELDS:
            if (wanted := getattr(self, each.name)) is not None and not _admits(wanted, each.of(item)):
                return False
        for key, wanted in self.metadata.items():
            if not _admits(wanted, value_at(item.metadata, key)):
                return False
        time = time_of(item)
        return (
            (not self.unbound or all(getattr(item.scope, part) is None for part in self.unbound))
            and (not self.scope_in or all(one.admits(getattr(item.scope, part)) for part, one in self.scope_in.items()))
            and (self.after is None or time >= self.after)
            and (self.before is None or time < self.before)
            and (not self.min_trust or item.trust >= self.min_trust)
            # ruff: noqa: SLF001 - of this class
            and (not self.any_of or any(part._matches(item) for part in self.any_of))
            and (not self.all_of or all(part._matches(item) for part in self.all_of))
            and not (self.none_of and any(part._matches(item) for part in self.none_of))
        )


def _parts_of(scope: Scope) -> dict[str, str]:
    return {part: value for part in SCOPE_PARTS if (value := getattr(scope, part)) is not None}


OWNER_PARTS: Final = ("user", "agent", "session", "conversation")
"""Parts of a scope that say whose an item is; trace and run only say in which work it was written."""


def same_owner(one: Scope, other: Scope) -> bool:
    """Whether two scopes differ in trace and run at most."""
    return all(getattr(one, part) == getattr(other, part) for part in OWNER_PARTS)


def exactly(scope: Scope) -> Filter:
    """Return the filter for the items of one scope and of no narrower one, whatever their trace and run are."""
    own = {part: getattr(scope, part) for part in OWNER_PARTS}
    return Filter(scope=Scope(**own), unbound=tuple(part for part, value in own.items() if value is None))


def conditions_of(wanted: Wanted) -> tuple[Condition, ...]:
    """Return the conditions on a value, all of which hold."""
    if isinstance(wanted, Condition):
        return (wanted,)
    return (Condition(Operator.ONE_OF, (wanted,)),) if isinstance(wanted, Scalar) else tuple(wanted)


def _admits(wanted: Wanted, found: JsonValue) -> bool:
    if isinstance(wanted, Scalar):
        return same_value(found, wanted)
    return all(condition.admits(found) for condition in conditions_of(wanted))


_NOT_OF_TEXT: Final = (Operator.CONTAINS, Operator.AFTER, Operator.BEFORE)


def _clean(value: Any) -> Any:  # noqa: ANN401 - a scalar, a condition, or several
    return clean_text(value) if isinstance(value, str) else value


def _check_metadata(name: str, value: object) -> None:
    """Refuse what a value of the metadata is never compared with."""
    if isinstance(value, str | int | float | Condition):
        return
    if isinstance(value, Sequence) and all(isinstance(one, Condition) for one in value):
        return
    way_out = ""
    if value is None:
        way_out = "; `absent()` asks for what has no value"
    elif isinstance(value, list | tuple | set):
        way_out = "; `one_of(...)` compares with several values, `contains(...)` looks into a list"
    elif isinstance(value, Mapping):
        way_out = "; the JSON form of a filter is read by `load_filter`"
    raise FilterError(name, f"expected text, a number, a flag or conditions, not {value!r}{way_out}")


def _check_text(name: str, wanted: object, known: frozenset[str] | None = None) -> None:
    """Refuse what a text, such as a part of a scope, is never compared with; `known` are all that it can be."""
    values, operator = (wanted.values, wanted.operator) if isinstance(wanted, Condition) else ((wanted,), None)
    if operator is Operator.EXISTS:
        return
    if wrong := [one for one in values if not isinstance(one, str)]:
        raise FilterError(name, f"expected text or a condition on text, not {wrong[0]!r}")
    if operator in _NOT_OF_TEXT:
        raise FilterError(name, f"`{operator}` compares with what no text is; `*=` looks for a part of it")
    is_equality = operator in (None, Operator.ONE_OF, Operator.DIFFERS_FROM)
    if known is not None and is_equality and (unknown := [one for one in values if one not in known]):
        raise FilterError(name, f"expected one of {', '.join(sorted(known))}, not {unknown[0]!r}")


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise FilterError(name, f"expected a number, not {value!r}")


NO_FILTER: Final = Filter()
"""Admits every item that has not expired."""
