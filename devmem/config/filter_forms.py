"""Filters as JSON and YAML have them, in workflow files, requests and on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import reduce
from operator import and_
from typing import Annotated, Any, Final, TypeAlias

from pydantic import JsonValue, PlainSerializer, PlainValidator, WithJsonSchema

from devmem.config.findings import closest
from devmem.errors import FilterError
from devmem.model.conditions import (
    MAX_VALUES,
    OF_SEVERAL,
    Condition,
    Operator,
    Scalar,
    above,
    absent,
    below,
    contains,
    one_of,
)
from devmem.model.filters import ITEM_FIELDS, MAX_DEPTH, MAX_PARTS, OWN_FIELDS, SCOPE_PARTS, Filter, conditions_of
from devmem.model.items import Scope
from devmem.model.record_fields import FROM, TO, WITH

METADATA: Final = "metadata."
_OWN_FIELDS: Final = {each.key: each.name for each in OWN_FIELDS}
"""Attributes of `Filter` by the keys of the fields that are no part of a scope."""
_GROUPS: Final = ("all_of", "any_of", "none_of")
_BOUNDS: Final = ("after", "before", "min_trust")
_FLAG: Final = "include_unscoped"
_RECORDS: Final = ("with", "during")
"""Keys on what importers know of records: people, and the time from start to end."""
KEYS: Final = (*(each.key for each in ITEM_FIELDS), f"{METADATA}KEY")
"""Keys that a condition is on."""
_ALL_KEYS: Final = (*KEYS, *_RECORDS, *_BOUNDS, *_GROUPS, _FLAG)


def load_filter(form: object) -> Filter:
    """Read a filter, all of whose entries must hold.

    ```yaml
    metadata.topic: [launch, hiring]        # one of these
    metadata.stars: {">=": 3, "<": 5}       # several conditions on a key
    metadata.due: {before: 2026-06-02}      # a text that is a time
    metadata.room: null                     # no value
    source: {"^=": reports/}
    after: 2026-01-01                       # when it happened
    with: Ann Smith                         # one of the people of a record
    during: March 2026                      # it happened then, or lasted into it
    none_of: [{metadata.state: done}, {agent: drafts}]
    ```

    Args:
        form: a mapping. Its keys are those of `ITEM_FIELDS`, such as `user` and `source`, or `metadata.KEY`, with a
            value, a list of which one is meant, null for no value, or a mapping of operators (see `Operator`), of which
            a list holds where one operator is needed twice; `with`, a name or a list of which one is meant; `during`, a
            time in words or a list of its start and its end; `after`, `before` and `min_trust`; and `all_of`, `any_of`
            and `none_of` with a list of filters.

    Raises:
        FilterError: it is none; the message names the place in it.
    """
    return _load(form, "", 1)


def _load(form: object, at: str, depth: int) -> Filter:
    if not isinstance(form, Mapping):
        raise FilterError(at, f"expected a mapping such as {{'metadata.topic': 'launch'}}, not {form!r:.60}")
    if depth > MAX_DEPTH or len(form) > MAX_PARTS:
        limit = f"{MAX_DEPTH} levels" if depth > MAX_DEPTH else f"{MAX_PARTS:,} entries"
        raise FilterError(at, f"a filter has at most {limit}")
    entries = {str(key): value for key, value in form.items()}
    flag = entries.pop(_FLAG, False)
    if not isinstance(flag, bool):
        raise FilterError(f"{at}{_FLAG}", f"expected true or false, not {flag!r:.60}")
    parts = [_entry(key, value, f"{at}{key}", depth) for key, value in entries.items()]
    # With the flag at first, a second part of the scope could not join the first: it would admit no unscoped item.
    return replace(reduce(and_, parts, Filter()), include_unscoped=flag)


def _entry(key: str, value: object, at: str, depth: int) -> Filter:
    """Return the filter of one entry."""
    if key in _GROUPS:
        if not isinstance(value, list | tuple) or not 0 < len(value) <= MAX_PARTS:
            raise FilterError(at, f"expected a list of 1 to {MAX_PARTS:,} filters, not {value!r:.60}")
        parts: Any = {key: tuple(_load(each, f"{at}[{number}].", depth + 1) for number, each in enumerate(value))}
        return Filter(**parts)
    try:
        if key in _BOUNDS:
            bound: Any = {key: value if key == "min_trust" else _seconds(value)}
            return Filter(**bound)
        if key in _RECORDS:
            return shared_with(value) if key == "with" else during(value)
        wanted = _wanted(value)
        if key.startswith(METADATA) and key != METADATA:
            conditions = tuple(condition for each in wanted for condition in conditions_of(each))
            return Filter(metadata={key.removeprefix(METADATA): wanted[0] if len(wanted) == 1 else conditions})
        return reduce(and_, (_on_column(key, each) for each in wanted), Filter())
    except FilterError as error:
        inner = "" if error.field in ("values", key, f"scope.{key}", _OWN_FIELDS.get(key)) else f"{error.field}: "
        raise FilterError(at, f"{inner}{error.reason}") from error


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float | date):
        raise FilterError("values", f"expected a time such as 2026-06-02 or seconds since 1970, not {value!r:.60}")
    # Agents have filters, and few of them name a time: to read one takes a calendar of words.
    from devmem.text.moments import parse_moment

    try:
        return parse_moment(value)
    except ValueError as error:
        raise FilterError("values", str(error)) from error


def shared_with(names: object) -> Filter:
    """Return the filter that admits the records with one of some people.

    Raises:
        FilterError: it is neither a name nor a list of names.
    """
    wanted: list[Any] = list(names) if isinstance(names, list | tuple) else [names]
    if not wanted or not all(isinstance(name, str) and name.strip() for name in wanted):
        raise FilterError("values", f"expected a name or a list of names, not {names!r:.60}")
    one: Scalar | Condition = wanted[0] if len(wanted) == 1 else one_of(*wanted)
    return Filter(any_of=(Filter(metadata={WITH: one}), Filter(metadata={WITH: contains(*wanted)})))


def during(when: object) -> Filter:
    """Return the filter that admits what happened within a time, and records that lasted into it.

    Args:
        when: a time in words, such as "March 2026" or "last week", or a list of its start and its end, exclusive.

    Raises:
        FilterError: it is neither.
    """
    if isinstance(when, list | tuple) and len(when) == 2:
        start, end = map(_seconds, when)
        if start >= end:
            raise FilterError("values", f"the end is not after the start: {when!r:.80}")
    else:
        from devmem.text.times import period_of

        text, now = f"{when:%d %B %Y}" if isinstance(when, date) else when, time.time()
        # A month alone is a verb or a name where nothing stands before it.
        found = (period_of(text, now) or period_of(f"in {text}", now)) if isinstance(text, str) else None
        if found is None:
            expected = "a time such as `March 2026`, `last week` or 2026-03-02, or a list of its start and end"
            raise FilterError("values", f"expected {expected}, not {when!r:.60}")
        start, end = found.start, found.end
    first, last = (datetime.fromtimestamp(seconds, UTC) for seconds in (start, end))
    happened = Filter(after=start, before=end)
    return Filter(any_of=(happened, Filter(metadata={FROM: below(last), TO: above(first)})))


def _wanted(value: object) -> list[Scalar | Condition]:
    """Return the values and conditions of an entry, all of which hold."""
    if value is None:
        return [absent()]
    if isinstance(value, list | tuple):
        if value and all(isinstance(each, Mapping) for each in value):
            return [condition for each in value for condition in _operators(each)]
        _check_scalars(value)
        return [one_of(*value)]
    if isinstance(value, Mapping):
        return _operators(value)
    _check_scalars([value])
    return [_scalar(value)]


def _operators(form: Mapping[object, object]) -> list[Scalar | Condition]:
    if not form:
        raise FilterError("values", f"expected an operator ({', '.join(Operator)}) and a value in the mapping")
    found: list[Scalar | Condition] = []
    for name, value in form.items():
        try:
            operator = Operator(str(name))
        except ValueError:
            hint = " to say `none_of`, put the filter into its list;" if str(name) in ("not", "none_of") else ""
            raise FilterError("values", f"no operator is {name!r};{hint} there are {', '.join(Operator)}") from None
        values = value if isinstance(value, list | tuple) and operator in OF_SEVERAL else [value]
        _check_scalars(values)
        found.append(Condition(operator, tuple(map(_scalar, values))))
    return found


def _check_scalars(values: Iterable[object]) -> None:
    for value in values:
        if not isinstance(value, str | int | float | date):
            raise FilterError("values", f"expected text, a number or true or false, not {value!r:.60}")


def _scalar(value: Any) -> Scalar:  # noqa: ANN401 - checked by `_check_scalars`
    # YAML reads 2026-06-02 as a date.
    return value.isoformat() if isinstance(value, date) else value


def _on_column(key: str, wanted: Scalar | Condition) -> Filter:
    if isinstance(wanted, Condition) and wanted.operator is Operator.ONE_OF and len(wanted.values) == 1:
        wanted = wanted.values[0]
    if key in _OWN_FIELDS:
        restricted: Any = {_OWN_FIELDS[key]: wanted}
        return Filter(**restricted)
    if key not in SCOPE_PARTS:
        likely = closest(key, _ALL_KEYS, cutoff=0.75)
        hint = f"did you mean {likely!r}?" if likely else f"a key of the metadata is {METADATA}{key}."
        raise FilterError("values", f"no item has such a key; {hint} There are {', '.join(_ALL_KEYS)}")
    if not isinstance(wanted, Condition):
        return Filter(scope=Scope(**{key: wanted}))  # type: ignore[arg-type]
    return Filter(unbound=(key,)) if wanted == absent() else Filter(scope_in={key: wanted})


def dump_filter(where: Filter) -> dict[str, JsonValue]:
    """Return the form that `load_filter` reads as a filter that admits the same items."""
    if where.include_unscoped and where.scope_in:
        # The flag says something of `scope` alone, which one condition there would be read as.
        return {
            **dump_filter(replace(where, scope_in={}, all_of=())),
            "all_of": [dump_filter(Filter(scope_in=where.scope_in)), *map(dump_filter, where.all_of)],
        }
    on_keys: dict[str, list[Condition]] = {}
    for key, conditions in _entries(where):
        on_keys.setdefault(key, []).extend(conditions)
    form: dict[str, JsonValue] = {key: _shown(found) for key, found in on_keys.items() if found}
    for name in (*_BOUNDS, *_GROUPS):
        value = getattr(where, name)
        if value not in (None, 0.0, ()) or (value == 0.0 and name != "min_trust"):
            form[name] = [dump_filter(each) for each in value] if isinstance(value, tuple) else value
    return {**form, _FLAG: True} if where.include_unscoped else form


def _entries(where: Filter) -> Iterable[tuple[str, tuple[Condition, ...]]]:
    yield from ((part, (one_of(value),)) for part in SCOPE_PARTS if (value := getattr(where.scope, part)) is not None)
    yield from ((part, (condition,)) for part, condition in where.scope_in.items())
    yield from ((part, (absent(),)) for part in where.unbound)
    yield from ((each.key, conditions_of(wanted)) for each, wanted in where.on_own_fields())
    yield from ((f"{METADATA}{key}", conditions_of(wanted)) for key, wanted in where.metadata.items())


def _shown(conditions: list[Condition]) -> JsonValue:
    """Return conditions in their shortest form."""
    if len({each.operator for each in conditions}) < len(conditions):
        return [{each.operator.value: _values(each)} for each in conditions]
    if len(conditions) > 1 or conditions[0].operator is not Operator.ONE_OF:
        is_absent = conditions == [absent()]
        return None if is_absent else {each.operator.value: _values(each) for each in conditions}
    values = _values(conditions[0])
    return values if values != [] else {Operator.ONE_OF.value: []}


def _values(condition: Condition) -> JsonValue:
    values: list[JsonValue] = list(condition.values)
    return values if condition.operator in OF_SEVERAL and len(values) != 1 else values[0]


_FORM_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "maxProperties": MAX_PARTS,
    "additionalProperties": {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "maxItems": MAX_VALUES},
            {"type": "object", "propertyNames": {"enum": [operator.value for operator in Operator]}},
        ]
    },
}
FilterForm: TypeAlias = Annotated[
    Filter,
    PlainValidator(load_filter, json_schema_input_type=dict[str, JsonValue]),
    PlainSerializer(dump_filter, return_type=dict[str, JsonValue]),
    WithJsonSchema(_FORM_SCHEMA),
]
"""A filter as a field of a model."""
