"""Conditions as the command line writes them: `metadata.priority>=3`, `session=s1`, `source^=notes/`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from devmem.cli.failures import CommandError
from devmem.cli.inputs import well_formed
from devmem.collections import Condition, Filter, Operator, Scalar, one_of
from devmem.errors import FilterError
from devmem.model.items import Scope
from devmem.search.filters import SCOPE_PARTS

_CONDITION: Final = re.compile(r"(?P<key>[^=<>!^]+)(?P<operator>>=|<=|!=|\^=|=|>|<)(?P<value>.*)", re.DOTALL)
_METADATA: Final = "metadata."
_OPERATORS: Final = ", ".join(operator.value for operator in Operator)


def filter_of(option: str, condition: str) -> Filter:
    """Return the filter of one condition.

    Args:
        option: its name, for messages.
        condition: a key, an operator and a value; a JSON list after `=` stands for one of several values.

    Raises:
        CommandError: it is none.
    """
    found = _CONDITION.fullmatch(condition)
    key = found["key"] if found else ""
    if found is None or not (key in SCOPE_PARTS or key == "source" or key.removeprefix(_METADATA) not in ("", key)):
        possible = ", ".join([*SCOPE_PARTS, "source", "metadata.KEY"])
        raise CommandError(
            f"{option} {condition!r}: expected KEY=VALUE, where KEY is one of {possible}, and `=` may be one of "
            f"{_OPERATORS}."
        )
    name = f"{option} {key}"
    try:
        return _of_key(key, Operator(found["operator"]), _values(name, key, found["value"]))
    except FilterError as error:
        raise CommandError(f"{option} {condition!r}: {error}") from error


def _of_key(key: str, operator: Operator, values: Sequence[Scalar]) -> Filter:
    is_plain = operator is Operator.ONE_OF and len(values) == 1
    condition = one_of(*values) if operator is Operator.ONE_OF else Condition(operator, tuple(values))
    if key.startswith(_METADATA):
        return Filter(metadata={key.removeprefix(_METADATA): values[0] if is_plain else condition})
    if key == "source":
        return Filter(source_name=str(values[0]) if is_plain else condition)
    return Filter(scope=Scope(**{key: str(values[0])})) if is_plain else Filter(scope_in={key: condition})


def _values(name: str, key: str, text: str) -> Sequence[Scalar]:
    listed = _json(text) if text.startswith("[") else None
    if isinstance(listed, list):
        return listed
    if key.startswith(_METADATA):
        return (scalar(text),)
    return (well_formed(text) if key == "source" else checked_name(name, text),)


def checked_name(option: str, value: str) -> str:
    """Return a part of a scope; raises `CommandError` when it is empty, as an unset variable makes it."""
    if not value.strip():
        raise CommandError(f"{option} is empty. Is a variable not set? Leave the option out to name nobody.")
    return well_formed(value)


def scalar(text: str) -> Scalar:
    """Read `5` as a number and `true` as a boolean; in quotes they are text."""
    value = _json(text)
    return value if isinstance(value, (str, int, float, bool)) else text


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


def narrowed(where: Filter, other: Filter) -> Filter:
    """Return the filter that matches what a filter and another one of one condition match.

    Conditions on different keys become one filter, in which a user is found; a second one on a key is nested.
    """
    taken = {**_parts(where.scope), **where.scope_in, **where.metadata}
    keys = {**_parts(other.scope), **other.scope_in, **other.metadata}
    if taken.keys().isdisjoint(keys) and None in (where.source_name, other.source_name):
        return replace(
            where,
            scope=Scope(**_parts(where.scope), **_parts(other.scope)),
            scope_in={**where.scope_in, **other.scope_in},
            metadata={**where.metadata, **other.metadata},
            source_name=other.source_name if where.source_name is None else where.source_name,
        )
    return replace(where, any_of=(replace(other, any_of=where.any_of),))


def widened(where: Filter, alternatives: Sequence[Filter]) -> Filter:
    """Return the filter that matches what a filter and one of several others of one condition match."""
    if not alternatives:
        return where
    return replace(where, any_of=tuple(replace(each, any_of=where.any_of) for each in alternatives))


def _parts(scope: Scope) -> dict[str, str]:
    return {name: value for name in SCOPE_PARTS if (value := getattr(scope, name)) is not None}
