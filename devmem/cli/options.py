"""Options that several commands share: items by scope, metadata and time, and what is said of an item."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.inputs import well_formed
from devmem.cli.terminal import Terminal, items_text
from devmem.errors import FilterError
from devmem.model.fields import is_path
from devmem.model.items import Scope
from devmem.search.conditions import Condition, Operator, Scalar, one_of
from devmem.search.query import SCOPE_PARTS, Filter
from devmem.stores.memory import MemoryBase
from devmem.text.durations import parse_duration
from devmem.text.moments import parse_moment

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


_User = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this user.")]
_Agent = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this agent.")]
_Conversation = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this conversation.")]
_Where = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only items with this `session`, `trace`, `run`, `source` or `metadata.KEY`; may be repeated. Other "
        "operators: `!=`, `<`, `<=`, `>`, `>=`, and `^=` for a prefix; `KEY=[1, 2]` is one of several values.",
    ),
]
_AnyWhere = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Of all conditions given so, at least one holds; may be repeated."),
]
_After = Annotated[str | None, typer.Option(metavar="DATE", help="Only items from this date on.")]
_Before = Annotated[str | None, typer.Option(metavar="DATE", help="Only items from before this date.")]
AllUsers: TypeAlias = Annotated[
    bool, typer.Option("--all-users", help="Items of every user; otherwise items of nobody, or of --user.")
]
_OPTIONS: Final = {
    "user": _User,
    "agent": _Agent,
    "conversation": _Conversation,
    "where": _Where,
    "any_where": _AnyWhere,
    "after": _After,
    "before": _Before,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Items that the options of a command select."""

    where: Filter
    all_users: bool = False

    @property
    def visible(self) -> Filter:
        """The filter, restricted to unscoped items unless it names a user or `all_users` is set."""
        if self.all_users or self.where.scope.user is not None:
            return self.where
        return replace(self.where, unbound=("user",))


def selecting(
    *,
    by_user: bool = False,
    all_users: Any = AllUsers,  # noqa: ANN401 - an annotated type
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that adds the options that select items, in the place of the argument `selection`.

    Args:
        by_user: whether to add `--all-users`, for a command that sees only unscoped items without it.
        all_users: the type of that option, with its help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = [each for each in signature.parameters.values() if each.name != "selection"]
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in _OPTIONS.items()]
        if by_user:
            added.append(inspect.Parameter("all_users", kind, default=False, annotation=all_users))

        @functools.wraps(command)
        def run(*args: Any, all_users: bool = False, **options: Any) -> None:  # noqa: ANN401 - any option's value
            chosen = {name: options.pop(name) for name in _OPTIONS}
            where = make_filter(**chosen)
            if all_users and where.scope.user is not None:
                raise CommandError("give either --user or --all-users, not both.")
            command(*args, selection=Selection(where=where, all_users=all_users), **options)

        extended = signature.replace(parameters=[*parameters, *added])
        run.__signature__ = extended  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in extended.parameters.values()}
        return run

    return decorate


def make_filter(
    *,
    where: list[str] | None,
    any_where: list[str] | None = None,
    after: str | None = None,
    before: str | None = None,
    **scope: str | None,
) -> Filter:
    """Return the filter; raises `CommandError` for an unknown key or an unreadable date."""
    parts = {name: checked_name(f"--{name}", value) for name, value in scope.items() if value is not None}
    found = Filter(scope=Scope(**parts), after=_time("--after", after), before=_time("--before", before))
    for condition in where or []:
        found = narrowed(found, filter_of("--where", condition))
    return widened(found, [filter_of("--any-where", condition) for condition in any_where or []])


def report_hidden(terminal: Terminal, memory: MemoryBase, where: Filter) -> None:
    """Print the number of items that match but belong to a user, where the filter leaves these out."""
    if "user" not in where.unbound:
        return
    hidden = memory.count_memories(replace(where, unbound=())) - memory.count_memories(where)
    if hidden > 0:
        report_left_out(terminal, hidden)


def report_left_out(terminal: Terminal, count: int, *, store: str = "") -> None:
    """Print the number of items that were left out because they belong to a user."""
    items = items_text(count)
    belong = "belongs" if count == 1 else "belong"
    of = f" of {store}" if store else ""
    terminal.report("note", f"left out: {items}{of} that {belong} to a user; --user ID or --all-users includes them")


def _time(option: str, raw: str | None) -> float | None:
    try:
        return None if raw is None else parse_moment(raw)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error


Metadata: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata of the item; may be repeated.")
]
Fields: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="PATH",
        help="Field of the metadata that is searched too: title, chapters[*].content; `none` is no field. Repeatable.",
    ),
]
Time: TypeAlias = Annotated[str | None, typer.Option(metavar="DATE", help="When it happened.")]
Expires: TypeAlias = Annotated[
    str | None, typer.Option("--expires-at", "--expires", metavar="DATE", help="When it is to be forgotten.")
]
Ttl: TypeAlias = Annotated[
    str | None, typer.Option("--ttl", metavar="DURATION", help="How long it is kept from now on: 30d, 12h, `1h 30m`.")
]
NEVER: Final = "none"
"""Removes a time or an expiry; as the only field, none is searched."""


def expiry_of(expires: str | None, ttl: str | None) -> str | timedelta | None:
    """Return when an item expires: the date or `none` as given, or how long from now; None where neither is given.

    Raises:
        CommandError: both are given, or the duration is none.
    """
    if ttl is None:
        return expires
    if expires is not None:
        raise CommandError("--expires-at and --ttl both say when it is to be forgotten; give one of them.")
    try:
        return timedelta(seconds=parse_duration(ttl))
    except ValueError as error:
        raise CommandError(f"--ttl {ttl!r}: {error}.") from error


def metadata_of(pairs: Sequence[str] | None) -> dict[str, str | int | float | bool | None]:
    """Return metadata from `KEY=VALUE` arguments: `5` is a number, `"5"` text; raises `CommandError` for others."""
    metadata: dict[str, str | int | float | bool | None] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise CommandError(f"--metadata {pair!r}: expected KEY=VALUE.")
        metadata[key] = scalar(value)
    return metadata


def checked_fields(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the paths of `--field` arguments, None where there are none; raises `CommandError` for what is no path."""
    if paths is not None and [path.lower() for path in paths] == [NEVER]:
        return ()
    if NEVER in [path.lower() for path in paths or ()]:
        raise CommandError(f"--field {NEVER} is no field, so it stands alone.")
    if wrong := [path for path in paths or () if not is_path(path)]:
        raise CommandError(f"--field {wrong[0]!r}: expected a path such as title, author.name or chapters[*].content.")
    return None if paths is None else tuple(paths)
