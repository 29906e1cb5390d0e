"""Options that select items by scope, metadata and time."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.collections import Filter
from devmem.model.items import Scope
from devmem.transfer.importing import parse_time

User: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this user.")]
Agent: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this agent.")]
Conversation: TypeAlias = Annotated[str | None, typer.Option(metavar="ID", help="Only items of this conversation.")]
Where: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Only items with this `session`, `trace`, `run`, `source` or `metadata.KEY`; may be repeated.",
    ),
]
After: TypeAlias = Annotated[str | None, typer.Option(metavar="DATE", help="Only items from this date on.")]
Before: TypeAlias = Annotated[str | None, typer.Option(metavar="DATE", help="Only items from before this date.")]

_METADATA = "metadata."


def make_filter(
    *, where: list[str] | None, after: str | None = None, before: str | None = None, **scope: str | None
) -> Filter:
    """Return the filter; raises `CommandError` for an unknown key or an unreadable date."""
    parts = {key: value for key, value in scope.items() if value is not None}
    metadata: dict[str, str | int | float | bool] = {}
    source = None
    known = [part.name for part in fields(Scope)]
    for condition in where or []:
        key, equals, value = condition.partition("=")
        if equals and key in known:
            parts[key] = value
        elif equals and key == "source":
            source = value
        elif equals and key.startswith(_METADATA) and key != _METADATA:
            metadata[key.removeprefix(_METADATA)] = _scalar(value)
        else:
            possible = ", ".join([*known, "source", "metadata.KEY"])
            raise CommandError(f"--where {condition!r}: expected KEY=VALUE, where KEY is one of {possible}.")
    return Filter(
        scope=Scope(**parts),
        source_name=source,
        metadata=metadata,
        after=_time("--after", after),
        before=_time("--before", before),
    )


def _scalar(text: str) -> str | int | float | bool:
    """Read `5` as a number and `true` as a boolean; in quotes they are text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return value if isinstance(value, (str, int, float, bool)) else text


def _time(option: str, raw: str | None) -> float | None:
    try:
        return None if raw is None else parse_time(raw)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
