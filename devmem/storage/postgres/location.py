"""The URL of a store in a PostgreSQL database, which never shows its password."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from devmem.errors import CollectionError

OWN: Final = ("store", "tenant", "schema", "connections", "statement_timeout", "row_security")
"""Parameters that are devmem's; all others are libpq's."""
_MOST_PORT: Final = 65535
_ENCODE: Final = (
    "write the special characters of user and password as %-codes (@ is %40, / is %2F, ? is %3F, : is %3A, % is %25), "
    "or keep the password in PGPASSWORD or .pgpass"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlParts:
    """A URL, taken apart."""

    shown: str
    """Scheme, hosts and database, without user and password."""
    own: dict[str, str]
    """devmem's parameters."""
    conninfo: str
    """How libpq connects: may hold a password."""


def split_url(url: str) -> UrlParts:
    """Take a URL apart and check it, as far as this is possible without connecting.

    Raises:
        CollectionError: it is no URL that libpq understands; no part that may be a password is in the message.
    """
    rest = url.partition("://")[2]
    userinfo, place, query = _split(rest)
    shown = f"postgresql://{place}"
    if "@" in place:
        # libpq would take the end of the password for the host.
        raise CollectionError(
            f"postgresql://***@{place.rpartition('@')[2]}", f"user, password and host cannot be told apart: {_ENCODE}."
        )
    _check_place(place)
    given = [each for each in query.split("&") if each]
    _check_names(shown, given)
    own = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if name in OWN}
    # As they are: libpq takes a plus sign for itself, not for a space.
    others = [each for each in given if unquote(each.partition("=")[0]) not in OWN]
    uri = f"postgresql://{userinfo}{place}{'?' if others else ''}{'&'.join(others)}"
    try:
        conninfo = make_conninfo("", **conninfo_to_dict(uri))
    except ProgrammingError:
        # libpq quotes what it does not understand, which may be a password.
        raise CollectionError(shown, f"is no URL that PostgreSQL understands: {_ENCODE}.") from None
    return UrlParts(shown=shown, own=own, conninfo=conninfo)


def _split(rest: str) -> tuple[str, str, str]:
    """Return user and password with their @, host and database, and the parameters, as libpq tells them apart."""
    start = re.search(r"[@/]|\?\w+=", rest)
    userinfo, rest = (rest[: start.end()], rest[start.end() :]) if start and start[0] == "@" else ("", rest)
    parameters = re.search(r"\?(?=\w+=|[^@]*$)", rest)
    if parameters is None:
        return userinfo, rest, ""
    return userinfo, rest[: parameters.start()], rest[parameters.end() :]


def _check_place(place: str) -> None:
    hosts, _, database = place.partition("/")
    for host in hosts.split(","):
        port = re.sub(r"\A\[.*\]", "", host).partition(":")[2]
        if port and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _MOST_PORT):
            # May be the password of a URL that lacks its host.
            raise CollectionError(
                f"postgresql://***/{database}", f"the port is not a number from 1 to {_MOST_PORT}; if it is a "
                f"password, @HOST is missing, or {_ENCODE}."
            )  # fmt: skip
    if re.search(r"&\w+=", database):
        raise CollectionError(f"postgresql://{place}", "parameters begin with a question mark: DATABASE?NAME=VALUE&...")


def _check_names(shown: str, parameters: Iterable[str]) -> None:
    known, seen = sorted({*OWN, *_libpq_parameters()}), set[str]()
    for parameter in parameters:
        encoded, separator, _ = parameter.partition("=")
        name = unquote(encoded)
        if not separator:
            raise CollectionError(
                shown,
                f"a parameter has no value; those of a URL are NAME=VALUE. If it is a part of the password, {_ENCODE}.",
            )
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise CollectionError(shown, f"the parameter {name!r} is known neither to devmem nor to libpq{hint}")
        if name in OWN and name in seen:
            raise CollectionError(shown, f"the parameter {name!r} stands there twice.")
        seen.add(name)


@cache
def _libpq_parameters() -> frozenset[str]:
    # `ssl=true` is what Java's driver calls `sslmode=require`; libpq takes it in a URL.
    return frozenset({option.keyword.decode() for option in Conninfo.get_defaults()} | {"ssl"})


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

    def __str__(self) -> str:
        return self.shown

    @property
    def number(self) -> int:
        """Number of the store, with which its rows begin in every table.

        The table `stores` checks it, so that nobody takes the number of another's store.
        """
        named = f"{len(self.tenant)}:{self.tenant}{self.store}".encode()
        return int.from_bytes(hashlib.sha256(named).digest()[:8], "big") >> 1

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
        raise CollectionError(shown, f"{name}={own[name]} in the URL is not a {kind} from {least:g} to 999,999.")
    return value


def _flag(shown: str, own: dict[str, str], name: str) -> bool:
    value = own.get(name, "off").lower()
    if value not in _YES:
        raise CollectionError(shown, f"{name}={value} in the URL is neither on nor off.")
    return _YES[value]
