"""Options that several commands share: items by scope, metadata and time, and the properties of an item."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from devmem.cli.declaring import OptionGroup, Parameters, option
from devmem.cli.targets import seconds_of_option
from devmem.cli.terminal import Terminal
from devmem.errors import CommandError, FilterError
from devmem.model.conditions import Operator, Scalar
from devmem.text.display import number_of

if TYPE_CHECKING:
    from devmem.model.filters import Filter
    from devmem.stores.memory import MemoryBase

_CONDITION: Final = re.compile(r"(?P<key>.+?)(?P<operator>[><!^*~]=|[=><])(?P<value>.*)", re.DOTALL)


def filter_of(option: str, condition: str) -> Filter:
    """Return the filter of one condition.

    Args:
        option: its name, for messages.
        condition: a key, an operator and a value, where a JSON list stands for several; a key alone for any value, and
            `!` before it for none; or a whole filter as JSON.

    Raises:
        CommandError: it is not a condition.
    """
    return _loaded(f"{option} {condition!r}", _form_of(option, condition), names_field=condition.startswith("{"))


def _loaded(option: str, form: object, *, names_field: bool = False) -> Filter:
    from devmem.config.filter_forms import load_filter

    try:
        return load_filter(form)
    except FilterError as error:
        at = f"{error.field}: " if names_field and error.field else ""
        raise CommandError(f"{option}: {at}{error.reason}.") from error


def _form_of(option: str, condition: str) -> object:
    """Return the JSON form of a condition."""
    if condition.startswith("{"):
        try:
            return json.loads(condition)
        except (json.JSONDecodeError, RecursionError) as error:
            raise CommandError(f"{option} {condition!r:.60}: {error}; expected a filter as JSON.") from error
    found = _CONDITION.fullmatch(condition)
    if found is None:
        key = condition.removeprefix("!")
        return {key: {Operator.EXISTS.value: key == condition}}
    from devmem.config.filter_forms import METADATA

    key, text = found["key"], found["value"]
    listed = _json(text) if text.startswith("[") else None
    is_text = not key.startswith(METADATA)
    if isinstance(listed, list):
        value: object = listed
    elif is_text and found["operator"] == Operator.ONE_OF:
        value = text if key in ("source", "source_kind") else checked_name(f"{option} {key}", text)
    else:
        value = text if is_text else scalar(text)
    return {key: value if found["operator"] == Operator.ONE_OF else {found["operator"]: value}}


def checked_name(option: str, value: str) -> str:
    """Return a part of a scope; raises `CommandError` when it is empty, as an unset variable makes it."""
    if not value.strip():
        raise CommandError(
            f"{option} is empty. Is a variable not set? Omit the option to name no user, agent or conversation."
        )
    return value


def scalar(text: str) -> Scalar:
    """Read `5` as a number and `true` as a boolean; in quotes they are text."""
    value = _json(text)
    return value if isinstance(value, (str, int, float, bool)) else text


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


AllUsers: TypeAlias = Annotated[
    bool, option("Items of every user; by default unscoped ones, or those of --user.", "--all-users")
]


@dataclass(frozen=True, kw_only=True)
class Selection(OptionGroup):
    """Items that the options of a command select."""

    user: Annotated[str | None, option("Only items of this user.", metavar="ID")] = None
    agent: Annotated[str | None, option("Only items of this agent.", metavar="ID")] = None
    conversation: Annotated[str | None, option("Only items of this conversation.", metavar="ID")] = None
    where: Annotated[
        list[str] | None,
        option(
            "Only items with this `session`, `trace`, `run`, `source` or `metadata.KEY`; may be repeated. Other "
            "operators: `!=`, `<`, `<=`, `>`, `>=`, `^=` for a prefix, `*=` for a part of a text, `~=` for an element "
            "of a list; `KEY=[1, 2]` is one of several values, `KEY` alone any value, `!KEY` none. Or a filter as "
            "JSON.",
            metavar="KEY=VALUE",
        ),
    ] = None
    any_where: Annotated[
        list[str] | None, option("At least one of these conditions must hold; may be repeated.", metavar="KEY=VALUE")
    ] = None
    shared_with: Annotated[
        list[str] | None,
        option("Only records with this person; repeat it for one of several.", "--with", metavar="NAME"),
    ] = None
    during: Annotated[
        str | None, option("Only what happened in `March 2026`, `last week`, ..., or lasted into it.", metavar="TIME")
    ] = None
    after: Annotated[str | None, option("Only items from this date onwards.", metavar="DATE")] = None
    before: Annotated[str | None, option("Only items from before this date.", metavar="DATE")] = None
    all_users: bool = False

    @classmethod
    def parameters(cls) -> tuple[Parameters, Parameters]:
        """Return the options, which come last in the help."""
        first, last = super().parameters()
        return last, first

    @classmethod
    def take(cls, terminal: Terminal, given: dict[str, Any]) -> Self:
        """Take the options out of those that are given; raises `CommandError` for what selects nothing that can be."""
        made = super().take(terminal, given)
        if made.filter.scope.user is not None and made.all_users:
            raise CommandError("give either --user or --all-users, not both.")
        return made

    def is_empty(self) -> bool:
        """Whether no option selects anything."""
        return self == type(self)()

    @cached_property
    def filter(self) -> Filter:
        """The filter of the items; `CommandError` is raised for an unknown key or an unreadable date."""
        from devmem.model.filters import Filter
        from devmem.model.items import Scope

        found = Filter(
            scope=Scope(**named_scope(user=self.user, agent=self.agent, conversation=self.conversation)),
            after=None if self.after is None else seconds_of_option("--after", self.after),
            before=None if self.before is None else seconds_of_option("--before", self.before),
        )
        if found.after is not None and found.before is not None and found.after >= found.before:
            raise CommandError(
                f"--after {self.after!r} is not earlier than --before {self.before!r}, which is excluded, so that "
                "nothing can match."
            )
        for condition in self.where or []:
            found &= filter_of("--where", condition)
        for name, key, value in (("--with", "with", self.shared_with), ("--during", "during", self.during)):
            if value:
                found &= _loaded(name, {key: value})
        return found & Filter(any_of=tuple(filter_of("--any-where", each) for each in self.any_where or []))

    @property
    def visible(self) -> Filter:
        """The filter, restricted to unscoped items unless it names a user or `all_users` is set."""
        if self.all_users or self.filter.scope.user is not None:
            return self.filter
        return replace(self.filter, unbound=("user",))


@dataclass(frozen=True, kw_only=True)
class VisibleSelection(Selection):
    """The selection of a command that sees only unscoped items without `--all-users`."""

    all_users: AllUsers = False


@dataclass(frozen=True, kw_only=True)
class EverySelection(Selection):
    """The selection of a command that sees the items of every user."""

    all_users: Annotated[bool, option("Items of every user (the default).")] = False


def named_scope(**parts: str | None) -> dict[str, str]:
    """Return the parts of a scope that options name; raises `CommandError` for an empty or unusable name."""
    return {part: checked_name(f"--{part}", value) for part, value in parts.items() if value is not None}


def report_hidden(terminal: Terminal, memory: MemoryBase, where: Filter) -> None:
    """Print the number of items that match but belong to a user, where the filter leaves these out."""
    if "user" not in where.unbound:
        return
    hidden = memory.count(replace(where, unbound=())) - memory.count(where)
    if hidden > 0:
        report_left_out(terminal, hidden)


def report_left_out(terminal: Terminal, count: int, *, store: str = "") -> None:
    """Print the number of items that were left out because they belong to a user."""
    items = number_of(count, "item")
    belong = "belongs" if count == 1 else "belong"
    of = f" of {store}" if store else ""
    terminal.report("note", f"left out: {items}{of} that {belong} to a user; --user ID or --all-users includes them")


Fields: TypeAlias = Annotated[
    list[str] | None,
    option(
        "Metadata field that is also searched: title, chapters[*].content; `none` for none. Repeatable.",
        "--field",
        metavar="PATH",
    ),
]
NEVER: Final = "none"
"""Removes a time or an expiry; as the only field, none is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemValues(OptionGroup):
    """Properties of an item that is stored or changed."""

    metadata: Annotated[list[str] | None, option("Metadata of the item; may be repeated.", metavar="KEY=VALUE")] = None
    field: Fields = None
    time: Annotated[str | None, option("When it happened.", metavar="DATE")] = None
    expires: Annotated[str | None, option("When it expires.", "--expires-at", "--expires", metavar="DATE")] = None
    ttl: Annotated[str | None, option("How long it is kept from now on: 30d, 12h, `1h 30m`.", metavar="DURATION")] = (
        None
    )

    def named_metadata(self) -> dict[str, str | int | float | bool | None]:
        """Return the metadata: `5` is a number, `"5"` text; raises `CommandError` for what is no `KEY=VALUE`."""
        metadata: dict[str, str | int | float | bool | None] = {}
        for pair in self.metadata or ():
            key, equals, value = pair.partition("=")
            if not key or not equals:
                raise CommandError(f"--metadata {pair!r}: expected KEY=VALUE.")
            metadata[key] = scalar(value)
        return metadata

    def expiry(self) -> str | timedelta | None:
        """Return when the item expires: the date or `none` as given, or how long from now; None where neither is given.

        Raises:
            CommandError: both are given, or the duration is invalid.
        """
        if self.ttl is None:
            return self.expires
        if self.expires is not None:
            raise CommandError("give either --expires-at or --ttl, not both.")
        from devmem.text.durations import parse_duration

        try:
            return timedelta(seconds=parse_duration(self.ttl))
        except ValueError as error:
            raise CommandError(f"--ttl {self.ttl!r}: {error}.") from error


def checked_fields(paths: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the paths of `--field` arguments, None where there are none; raises `CommandError` for an invalid path."""
    from devmem.model.fields import is_path

    if paths is not None and [path.lower() for path in paths] == [NEVER]:
        return ()
    if NEVER in [path.lower() for path in paths or ()]:
        raise CommandError(f"--field {NEVER} cannot be combined with other fields.")
    if wrong := [path for path in paths or () if not is_path(path)]:
        raise CommandError(f"--field {wrong[0]!r}: expected a path such as title, author.name or chapters[*].content.")
    return None if paths is None else tuple(paths)
