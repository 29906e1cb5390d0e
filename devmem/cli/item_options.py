"""Options that describe an item: metadata, time and expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import typer

from devmem.cli.conditions import scalar
from devmem.cli.failures import CommandError

Metadata: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Metadata of the item; may be repeated.")
]
Time: TypeAlias = Annotated[str | None, typer.Option(metavar="DATE", help="When it happened.")]
Expires: TypeAlias = Annotated[str | None, typer.Option(metavar="DATE", help="When it is to be forgotten.")]


def metadata_of(pairs: Sequence[str] | None) -> dict[str, str | int | float | bool | None]:
    """Return metadata from `KEY=VALUE` arguments: `5` is a number, `"5"` text; raises `CommandError` for others."""
    metadata: dict[str, str | int | float | bool | None] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise CommandError(f"--metadata {pair!r}: expected KEY=VALUE.")
        metadata[key] = scalar(value)
    return metadata
