"""Conditions on one value of an item: one of several values, a range, a part of a text, an element of a list."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from devmem.errors import FilterError
from devmem.model.border import clean_text

if TYPE_CHECKING:
    from pydantic import JsonValue

Scalar: TypeAlias = str | int | float | bool
"""A value that a filter compares with; `True` and `1` are different values."""

MAX_VALUES: Final = 10_000
"""Maximum number of values of one condition."""


class Order(StrEnum):
    """Order in which items are listed."""

    STORED = "stored"
    """In which they were stored; a new version of an item counts as stored last."""
    EVENT = "event"
    """By event time, or creation time where there is none; then by the number in the metadata `sequence`, those
    without one first; then as stored."""


class Operator(StrEnum):
    """Comparison of a value with those of a condition, as the command line and JSON write it."""

    ONE_OF = "="
    DIFFERS_FROM = "!="
    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="
    STARTS_WITH = "^="
    CONTAINS_TEXT = "*="
    CONTAINS = "~="
    EXISTS = "exists"
    AFTER = "after"
    BEFORE = "before"


OF_SEVERAL: Final = frozenset({Operator.ONE_OF, Operator.DIFFERS_FROM, Operator.CONTAINS})
"""Operators that compare with any number of values."""
_OF_TEXT: Final = frozenset({Operator.STARTS_WITH, Operator.CONTAINS_TEXT})
_OF_TIME: Final = frozenset({Operator.AFTER, Operator.BEFORE})
_COMPARISONS: Final[Mapping[Operator, Callable[[Any, Any], bool]]] = {
    Operator.ABOVE: gt,
    Operator.AT_LEAST: ge,
    Operator.BELOW: lt,
    Operator.AT_MOST: le,
}
_UNALIGNED: Final = re.compile("[\x00-\x03\ue000-\ue7ff]")
"""Characters that a text which is looked for cannot begin with: databases encode some texts with them."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Predicate on one value; `one_of`, `above` and the other functions of this module make one.

    Numbers are compared with numbers, and texts, by code points, with texts: a value of another type is neither equal
    nor above nor below.
    """

    operator: Operator
    values: tuple[Scalar, ...]
    """Exactly one, but for `ONE_OF`, `DIFFERS_FROM` and `CONTAINS`, which have any number of them."""

    def __post_init__(self) -> None:
        if self.operator not in OF_SEVERAL and len(self.values) != 1:
            raise FilterError("values", f"`{self.operator}` compares with one value, not with {len(self.values)}")
        if len(self.values) > MAX_VALUES:
            raise FilterError("values", f"{len(self.values):,} values are more than {MAX_VALUES:,}")
        for value in self.values:
            if not isinstance(value, str | int | float):
                kind = type(value).__name__
                raise FilterError("values", f"a value to compare with is text, a number or a flag, not {kind}")
            if value != value:
                raise FilterError("values", "nothing compares with NaN")
        if any(isinstance(value, str) for value in self.values):
            texts = tuple(clean_text(value) if isinstance(value, str) else value for value in self.values)
            object.__setattr__(self, "values", texts)
        self._check_one(self.values[0] if self.values else "")

    def _check_one(self, value: Scalar) -> None:
        if self.operator in _OF_TEXT and not isinstance(value, str):
            raise FilterError("values", f"`{self.operator}` compares with text, not {value!r}")
        if self.operator is Operator.CONTAINS_TEXT and _UNALIGNED.match(str(value)):
            raise FilterError("values", f"the text of `{self.operator}` cannot begin with {str(value)[0]!r}")
        if self.operator is Operator.EXISTS and not isinstance(value, bool):
            raise FilterError("values", f"`{self.operator}` is true or false, not {value!r}")
        if self.operator in _COMPARISONS and isinstance(value, bool):
            raise FilterError("values", f"nothing is above or below {value!r}")
        if self.operator in _OF_TIME and micros_of(value) is None:
            raise FilterError("values", f"`{self.operator}` compares with {TIME_FORM}, not {value!r}")

    def __str__(self) -> str:
        shown = list(self.values) if self.operator in OF_SEVERAL else self.values[0]
        return f"{self.operator} {shown!r}"

    @property
    def is_negative(self) -> bool:
        """Whether it is met by what `positive` is not met by, absent values included."""
        return self.operator is Operator.DIFFERS_FROM or (self.operator is Operator.EXISTS and not self.values[0])

    @property
    def positive(self) -> Condition:
        """The condition that this one is the negation of; itself where it is none."""
        if not self.is_negative:
            return self
        return (
            Condition(Operator.EXISTS, (True,))
            if self.operator is Operator.EXISTS
            else Condition(Operator.ONE_OF, self.values)
        )

    def admits(self, found: JsonValue) -> bool:
        """Whether a value matches; None stands for an absent one."""
        if self.is_negative:
            return not self.positive.admits(found)
        match self.operator:
            case Operator.ONE_OF:
                return any(same_value(found, wanted) for wanted in self.values)
            case Operator.CONTAINS:
                elements = found if isinstance(found, list | tuple) else ()
                return any(same_value(element, wanted) for element in elements for wanted in self.values)
            case Operator.EXISTS:
                return found is not None
            case Operator.AFTER | Operator.BEFORE:
                micros, bound = micros_of(found), micros_of(self.values[0]) or 0
                return micros is not None and (micros >= bound) == (self.operator is Operator.AFTER)
            case _:
                return self._admits_ordered(found)

    def _admits_ordered(self, found: JsonValue) -> bool:
        (wanted,) = self.values
        if isinstance(found, str) and isinstance(wanted, str):
            if self.operator is Operator.STARTS_WITH:
                return found.startswith(wanted)
            if self.operator is Operator.CONTAINS_TEXT:
                return wanted in found
            return _COMPARISONS[self.operator](found, wanted)
        if isinstance(found, bool) or not isinstance(found, int | float) or isinstance(wanted, str):
            return False
        return _COMPARISONS[self.operator](comparable_number(found), comparable_number(wanted))


def one_of(*values: Scalar) -> Condition:
    """Return the condition that a value is one of several; of none, nothing matches."""
    return Condition(Operator.ONE_OF, values)


def differs_from(*values: Scalar) -> Condition:
    """Return the condition that a value is none of these, or absent."""
    return Condition(Operator.DIFFERS_FROM, values)


def above(value: str | float | datetime) -> Condition:
    """Return the condition that a value is larger; a time is compared with texts that are times in ISO 8601."""
    return _range(Operator.ABOVE, Operator.AFTER, value, 1)


def at_least(value: str | float | datetime) -> Condition:
    """Return the condition that a value is larger or the same; see `above` for times."""
    return _range(Operator.AT_LEAST, Operator.AFTER, value, 0)


def below(value: str | float | datetime) -> Condition:
    """Return the condition that a value is smaller; see `above` for times."""
    return _range(Operator.BELOW, Operator.BEFORE, value, 0)


def at_most(value: str | float | datetime) -> Condition:
    """Return the condition that a value is smaller or the same; see `above` for times."""
    return _range(Operator.AT_MOST, Operator.BEFORE, value, 1)


def _range(operator: Operator, of_time: Operator, value: str | float | datetime, micros: int) -> Condition:
    """Return a range; of a time, one that begins or ends some microseconds later."""
    if not isinstance(value, datetime):
        return Condition(operator, (value,))
    return Condition(of_time, ((value.astimezone(UTC) + timedelta(microseconds=micros)).isoformat(),))


def starts_with(text: str) -> Condition:
    """Return the condition that a text begins with another."""
    return Condition(Operator.STARTS_WITH, (text,))


def contains_text(text: str) -> Condition:
    """Return the condition that a text has another one in it, in the same case."""
    return Condition(Operator.CONTAINS_TEXT, (text,))


def contains(*values: Scalar) -> Condition:
    """Return the condition that a list has one of these values; several conditions on a key ask for all of them."""
    return Condition(Operator.CONTAINS, values)


def present() -> Condition:
    """Return the condition that there is a value, which is not null."""
    return Condition(Operator.EXISTS, (True,))


def absent() -> Condition:
    """Return the condition that there is no value, or null."""
    return Condition(Operator.EXISTS, (False,))


def value_at(metadata: Mapping[str, JsonValue], key: str) -> JsonValue:
    """Return the value of a key, None without one: `a.b` is the key of that name, else the key `b` of `a`."""
    if key in metadata or "." not in key:
        return metadata.get(key)
    found: object = metadata
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return cast("JsonValue", found)


TIME_FORM: Final = "a time such as 2026-06-02, 2026-06-02T14:30:00Z or 2026-06-02T14:30:00+02:00"
TIME_PATTERN: Final = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?"
    "(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])?)?"
)
"""Texts that `after` and `before` read as times, where the day exists."""
_TIME: Final = re.compile(TIME_PATTERN, re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


def micros_of(value: object) -> int | None:
    """Return the microseconds since the epoch of a time in ISO 8601, UTC where it names no zone; None for others."""
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    offset = found.utcoffset() or timedelta()
    return (found.replace(tzinfo=None) - _EPOCH - offset) // _MICROSECOND


def after_prefix(prefix: str) -> str | None:
    """Return the first text, by code points, after all that begin with a prefix; None where no text follows."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            # Surrogates have no place in a text.
            following = 0xE000 if last == 0xD7FF else last + 1
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


def same_value(found: JsonValue, wanted: Scalar) -> bool:
    """Whether two values are the same; a flag is not a number."""
    if isinstance(wanted, str):
        return found == wanted
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    return isinstance(found, int | float) and comparable_number(found) == comparable_number(wanted)


def comparable_number(value: float) -> float:
    """Return a number as a database reads it from JSON: an integer of more than 64 bits becomes a float."""
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
