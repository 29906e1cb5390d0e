"""Options that describe an item: metadata, time and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.conditions import scalar
from devmem.cli.failures import CommandError
from devmem.model.field_paths import is_path
from devmem.text.durations import parse_duration

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
