"""The parts of a PostgreSQL URL: what is for libpq and what is devmem's, checked without repeating a password."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import parse_qsl, unquote

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from devmem.errors import CollectionError

OWN: Final = ("store", "tenant", "schema", "connections", "statement_timeout", "row_security", "partition", "mode")
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
                f"postgresql://***/{database}", f"the port is no number from 1 to {_MOST_PORT}; if it is a password, "
                f"@HOST is missing, or {_ENCODE}."
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
