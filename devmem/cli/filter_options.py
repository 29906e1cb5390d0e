"""Options that select items by scope, metadata and time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.conditions import checked_name, filter_of, narrowed, widened
from devmem.cli.describe import items_text
from devmem.cli.failures import CommandError
from devmem.cli.terminal import Terminal
from devmem.collections import Filter
from devmem.model.items import Scope
from devmem.stores import MemoryBase
from devmem.transfer.importing import parse_time

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
        """The filter, narrowed to what is bound to nobody unless it names a user or `all_users` is set."""
        if self.all_users or self.where.scope.user is not None:
            return self.where
        return replace(self.where, unbound=("user",))


def selecting(*, by_user: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that adds the options that select items, in the place of the argument `selection`.

    Args:
        by_user: whether to add `--all-users`, for a command that sees only what is bound to nobody without it.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        parameters = [each for each in signature.parameters.values() if each.name != "selection"]
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [inspect.Parameter(name, kind, default=None, annotation=hint) for name, hint in _OPTIONS.items()]
        if by_user:
            added.append(inspect.Parameter("all_users", kind, default=False, annotation=AllUsers))

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
        return None if raw is None else parse_time(raw)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
