"""The URL of a store in a PostgreSQL database, which never shows its password."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo
from pydantic import AfterValidator, Field, StringConstraints, TypeAdapter, ValidationError

from devmem.errors import CollectionError

OWN: Final = ("store", "tenant", "schema", "connections", "statement_timeout", "row_security")
"""Parameters that are devmem's; all others are libpq's."""
_MOST_PORT: Final = 65535
_MOST_SHOWN: Final = 40
"""Characters of a wrong value that an error repeats."""
_ENCODE: Final = (
    "write the special characters of user and password as %-codes (@ is %40, / is %2F, ? is %3F, : is %3A, % is %25), "
    "or keep the password in PGPASSWORD or .pgpass"
)


def _parts_of(url: str) -> tuple[str, dict[str, str], str]:
    """Take a URL apart and check it, as far as this is possible without connecting.

    Return scheme, hosts and database, without user and password; devmem's parameters; and how libpq connects.

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
    return shown, own, conninfo


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


DEFAULT_STORE: Final = "memory"
DEFAULT_SCHEMA: Final = "devmem"
# Longer names do not fit into an index, and a NUL into no text.
_Name: TypeAlias = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")]


def _check_schema(name: str) -> str:
    # PostgreSQL cuts longer identifiers off, so that two schemas would be one.
    if len(name.encode()) > _MOST_IN_SCHEMA:
        raise ValueError(f"it has more than {_MOST_IN_SCHEMA} bytes")
    return name


_MOST_IN_SCHEMA: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A store in a database; neither `str` nor `repr` shows a password."""

    conninfo: str = field(repr=False)
    """How libpq connects: may hold a password."""
    shown: str
    """The URL without user, password and other parameters."""
    store: _Name
    tenant: _Name = ""
    """Whose store it is; a database may have stores of one name for each tenant."""
    schema: Annotated[_Name, AfterValidator(_check_schema)] = DEFAULT_SCHEMA
    """Schema of the tables."""
    connections: Annotated[int, Field(ge=1, lt=1_000_000)] = 8
    """Maximum number of connections of this process to the database."""
    statement_timeout: Annotated[float, Field(ge=0, lt=1_000_000)] = 120.0
    """Seconds that a statement may take; 0 is unlimited."""
    row_security: bool = False
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
        where, own, conninfo = _parts_of(url)
        names = {"store": own.pop("store", "") or store or DEFAULT_STORE}
        names |= {name: value for name in ("tenant", "schema") if (value := own.pop(name, ""))}
        shown = f"{where}?{urlencode(names)}"
        try:
            return TypeAdapter(cls).validate_python({"conninfo": conninfo, "shown": shown, **names, **own})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name, value = first["loc"][0], str(first["input"])[:_MOST_SHOWN]
            raise CollectionError(where, f"{name}={value} in the URL cannot be used: {first['msg']}.") from None
