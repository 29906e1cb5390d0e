"""Conditions on one value of an item: one of several values, a range, a prefix, any other value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from pydantic import JsonValue

from devmem.errors import FilterError

Scalar: TypeAlias = str | int | float | bool
"""A value that a filter compares with; `True` and `1` are different values."""

MAX_VALUES: Final = 10_000
"""Maximum number of values of one `one_of`."""


class Operator(StrEnum):
    """Comparison of a value with those of a condition, as the command line writes it."""

    ONE_OF = "="
    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="
    STARTS_WITH = "^="
    DIFFERS_FROM = "!="


@dataclass(frozen=True, slots=True)
class Condition:
    """Predicate on one value; `one_of`, `above` and the other functions of this module make one.

    Numbers are compared with numbers, and texts, by code points, with texts: a value of another type is neither equal
    nor above nor below.
    """

    operator: Operator
    values: tuple[Scalar, ...]
    """Exactly one, but for `ONE_OF`, which has any number of them."""

    def __post_init__(self) -> None:
        if self.operator is not Operator.ONE_OF and len(self.values) != 1:
            raise FilterError("values", f"`{self.operator}` compares with one value, not with {len(self.values)}")
        if len(self.values) > MAX_VALUES:
            raise FilterError("values", f"{len(self.values):,} values are more than {MAX_VALUES:,}")
        for value in self.values:
            _check_scalar(value)
        if self.operator is Operator.STARTS_WITH and not isinstance(self.values[0], str):
            raise FilterError("values", f"a prefix is text, not {self.values[0]!r}")
        is_range = self.operator not in (Operator.ONE_OF, Operator.DIFFERS_FROM)
        if is_range and isinstance(self.values[0], bool):
            raise FilterError("values", f"nothing is above or below {self.values[0]!r}")

    def __str__(self) -> str:
        shown = list(self.values) if self.operator is Operator.ONE_OF else self.values[0]
        return f"{self.operator} {shown!r}"

    def admits(self, found: JsonValue) -> bool:
        """Whether a value matches; None, which stands for an absent one, only differs from others."""
        if self.operator is Operator.ONE_OF:
            return any(same_value(found, wanted) for wanted in self.values)
        (wanted,) = self.values
        if self.operator is Operator.DIFFERS_FROM:
            return not same_value(found, wanted)
        if isinstance(found, str) and isinstance(wanted, str):
            if self.operator is Operator.STARTS_WITH:
                return found.startswith(wanted)
            return _is_ordered(self.operator, (found > wanted) - (found < wanted))
        if isinstance(found, bool) or not isinstance(found, int | float) or isinstance(wanted, str):
            return False
        number, bound = comparable_number(found), comparable_number(wanted)
        return _is_ordered(self.operator, (number > bound) - (number < bound))


def _is_ordered(operator: Operator, order: int) -> bool:
    """Whether a value that is smaller (-1), equal (0) or larger (1) matches."""
    match operator:
        case Operator.ABOVE:
            return order > 0
        case Operator.AT_LEAST:
            return order >= 0
        case Operator.BELOW:
            return order < 0
        case _:
            return order <= 0


def one_of(*values: Scalar) -> Condition:
    """Return the condition that a value is one of several; of none, nothing matches."""
    return Condition(Operator.ONE_OF, values)


def above(value: str | float) -> Condition:
    """Return the condition that a value is larger."""
    return Condition(Operator.ABOVE, (value,))


def at_least(value: str | float) -> Condition:
    """Return the condition that a value is larger or the same."""
    return Condition(Operator.AT_LEAST, (value,))


def below(value: str | float) -> Condition:
    """Return the condition that a value is smaller."""
    return Condition(Operator.BELOW, (value,))


def at_most(value: str | float) -> Condition:
    """Return the condition that a value is smaller or the same."""
    return Condition(Operator.AT_MOST, (value,))


def starts_with(text: str) -> Condition:
    """Return the condition that a text begins with another."""
    return Condition(Operator.STARTS_WITH, (text,))


def differs_from(value: Scalar) -> Condition:
    """Return the condition that a value is another one or absent."""
    return Condition(Operator.DIFFERS_FROM, (value,))


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


def _check_scalar(value: object) -> None:
    if not isinstance(value, str | int | float):
        raise FilterError("values", f"a value to compare with is text, a number or a flag, not {type(value).__name__}")
    if value != value:
        raise FilterError("values", "nothing compares with NaN")


def same_value(found: JsonValue, wanted: Scalar) -> bool:
    """Whether two values are the same; a flag is no number."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return comparable_number(found) == comparable_number(wanted)
    return found == wanted


def comparable_number(value: float) -> float:
    """Return a number as a database reads it from JSON: an integer of more than 64 bits becomes a float."""
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
