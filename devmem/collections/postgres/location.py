"""The URL of a store in a PostgreSQL database, which never shows its password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from urllib.parse import urlencode

from devmem.collections.postgres.url import split_url
from devmem.errors import CollectionError

T = TypeVar("T", int, float)

DEFAULT_STORE: Final = "memory"
DEFAULT_SCHEMA: Final = "devmem"
_MOST_IN_NAME: Final = 500
"""Characters; longer names do not fit into an index."""
_MOST_IN_SCHEMA: Final = 63
"""Bytes; PostgreSQL cuts longer identifiers off, so that two schemas would be one."""
_KINDS: Final[Mapping[type[object], str]] = {int: "whole number", float: "number"}
_YES: Final = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A store in a database; neither `str` nor `repr` shows a password."""

    conninfo: str = field(repr=False)
    """How libpq connects: may hold a password."""
    shown: str
    """The URL without user, password and other parameters."""
    store: str
    tenant: str
    """Whose store it is; a database may have stores of one name for each tenant."""
    schema: str
    """Schema of the tables."""
    connections: int
    """Maximum number of connections of this process to the database."""
    statement_timeout: float
    """Seconds that a statement may take; 0 is unlimited."""
    row_security: bool
    """Whether tables are to hide the rows of other tenants from whoever is not their owner."""
    partition: bool
    """Whether a new store is to have partitions of its own, so that it can be dropped at once."""
    mode: Literal["auto", "follow", "server"] | None = None
    """How the store is searched, whatever the configuration says; None leaves it to that."""

    def __str__(self) -> str:
        return self.shown

    @classmethod
    def parse(cls, url: str, store: str | None = None) -> Location:
        """Read a URL such as `postgresql://user@host/database?store=notes&tenant=acme`.

        Parameters that are not devmem's are libpq's: `sslmode`, `service`, `passfile` and others. What is missing libpq
        takes from the environment, a service file and `.pgpass`.

        Args:
            url: the URL.
            store: name of the store where the URL names none.

        Raises:
            CollectionError: a parameter is wrong; no part of the URL that may be secret is in the message.
        """
        parts = split_url(url)
        own, where = parts.own, parts.shown
        name = own.get("store") or store or DEFAULT_STORE
        for what, value in (("store", name), ("tenant", own.get("tenant", "")), ("schema", own.get("schema", ""))):
            if len(value) > _MOST_IN_NAME or "\x00" in value:
                raise CollectionError(where, f"the {what}'s name has more than {_MOST_IN_NAME} characters, or a NUL.")
        if len((own.get("schema") or "").encode()) > _MOST_IN_SCHEMA:
            raise CollectionError(where, f"the schema's name has more than {_MOST_IN_SCHEMA} bytes.")
        named = {"store": name} | {key: own[key] for key in ("tenant", "schema") if own.get(key)}
        return cls(
            conninfo=parts.conninfo,
            shown=f"{where}?{urlencode(named)}",
            store=name,
            tenant=own.get("tenant", ""),
            schema=own.get("schema") or DEFAULT_SCHEMA,
            connections=_number(where, own, "connections", 8, least=1),
            statement_timeout=_number(where, own, "statement_timeout", 120.0, least=0.0),
            row_security=_flag(where, own, "row_security"),
            partition=_flag(where, own, "partition"),
            mode=_mode(where, own),
        )


def _number(shown: str, own: dict[str, str], name: str, default: T, *, least: T) -> T:
    if name not in own:
        return default
    try:
        value = type(default)(own[name])
    except ValueError:
        value = None
    if value is None or not least <= value < 1_000_000:
        kind = _KINDS[type(default)]
        raise CollectionError(shown, f"{name}={own[name]} in the URL is no {kind} from {least:g} to 999,999.")
    return value


def _flag(shown: str, own: dict[str, str], name: str) -> bool:
    value = own.get(name, "off").lower()
    if value not in _YES:
        raise CollectionError(shown, f"{name}={value} in the URL is neither on nor off.")
    return _YES[value]


def _mode(shown: str, own: dict[str, str]) -> Literal["auto", "follow", "server"] | None:
    match own.get("mode", ""):
        case "":
            return None
        case "auto" | "follow" | "server" as mode:
            return mode
        case other:
            raise CollectionError(shown, f"mode={other} in the URL is none of auto, follow and server.")
