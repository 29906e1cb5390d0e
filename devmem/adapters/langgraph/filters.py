"""LangGraph's filters: what the database can decide, and a predicate for the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from devmem.collections import Condition, above, at_least, at_most, below, differs_from, one_of

Conditions: TypeAlias = dict[str, str | int | float | bool | Condition]
Predicate: TypeAlias = Callable[[Mapping[str, Any]], bool]

_PLAIN_KEY: Final = re.compile(r"[\w\-.]+")
_OPERATORS: Final[Mapping[str, Callable[[Any], Condition]]] = {
    "$eq": one_of,
    "$ne": differs_from,
    "$gt": above,
    "$gte": at_least,
    "$lt": below,
    "$lte": at_most,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueFilter:
    """A filter on values, in two parts that must both hold."""

    conditions: Conditions
    """Conditions that the database decides, by top-level key."""
    rest: Predicate | None
    """Predicate for the rest: nested values, lists, several conditions on one key."""


def value_filter(wanted: Mapping[str, Any] | None) -> ValueFilter:
    """Return the filter that LangGraph words as `{"key": value}` or `{"key": {"$gt": value}}`.

    Raises:
        ValueError: a key or an operator is none.
    """
    conditions: Conditions = {}
    rest: dict[str, Any] = {}
    for key, value in (wanted or {}).items():
        if not _PLAIN_KEY.fullmatch(key):
            raise ValueError(f"Invalid filter key: {key!r} has other characters than letters, digits, '_', '-' and '.'")
        condition = None if "." in key else _condition(value)
        if condition is None:
            rest[key] = value
        else:
            conditions[key] = condition
    return ValueFilter(conditions=conditions, rest=(lambda value: _matches_all(value, rest)) if rest else None)


def _condition(wanted: Any) -> str | int | float | bool | Condition | None:  # noqa: ANN401 - any JSON value
    """Return the condition of one key; None where the database has none for it."""
    if _is_comparable(wanted):
        return wanted  # type: ignore[no-any-return]
    if not isinstance(wanted, Mapping) or len(wanted) != 1:
        return None
    ((operator, value),) = wanted.items()
    if operator not in _OPERATORS or not _is_comparable(value):
        return None
    if isinstance(value, bool) and operator not in ("$eq", "$ne"):
        return None
    return _OPERATORS[operator](value)


def _is_comparable(value: object) -> bool:
    return isinstance(value, str | int | float) and value == value and _is_exact(value)


def _is_exact(value: str | int | float) -> bool:
    """Whether a number is one that a database compares exactly; texts are."""
    return isinstance(value, str) or abs(value) < 2**63


def _matches_all(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_matches(_at(value, key), each) for key, each in wanted.items())


def _at(value: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a key, or of a path of keys where there is no such key; None where there is neither."""
    if key in value:
        return value[key]
    node: Any = value
    for step in key.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node


def _matches(found: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_compares(found, operator, value) for operator, value in wanted.items())
        return isinstance(found, Mapping) and all(_matches(found.get(key), each) for key, each in wanted.items())
    if isinstance(wanted, list | tuple):
        return isinstance(found, list | tuple) and len(found) == len(wanted) and all(map(_matches, found, wanted))
    return bool(found == wanted)


def _compares(found: Any, operator: str, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    if operator not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {operator!r}; there are {', '.join(_OPERATORS)}")
    if operator in ("$eq", "$ne"):
        return (found == wanted) is (operator == "$eq")
    both_text = isinstance(found, str) and isinstance(wanted, str)
    if not both_text and not (_is_number(found) and _is_number(wanted)):
        return False
    if operator in ("$gt", "$gte"):
        return bool(found > wanted or (operator == "$gte" and found == wanted))
    return bool(found < wanted or (operator == "$lte" and found == wanted))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
