"""The URL of a store in a PostgreSQL database, which never shows its password."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlencode

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from devmem.credentials import without_credentials
from devmem.errors import CollectionError

T = TypeVar("T", int, float)

DEFAULT_STORE: Final = "memory"
DEFAULT_SCHEMA: Final = "devmem"
_MOST_IN_NAME: Final = 500
"""Characters; longer names do not fit into an index."""
_OWN: Final = ("store", "tenant", "schema", "connections", "statement_timeout", "row_security", "partition", "mode")
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
        base, _, query = url.partition("?")
        own = {name: value for name, value in parse_qsl(query, keep_blank_values=True) if name in _OWN}
        # As they are: libpq takes a plus sign for itself, not for a space.
        rest = [each for each in query.split("&") if each and unquote(each.partition("=")[0]) not in _OWN]
        uri = f"{base}?{'&'.join(rest)}" if rest else base
        where = _host_and_database(base)
        name = own.get("store") or store or DEFAULT_STORE
        shown = f"{where}?{urlencode({'store': name} | ({'tenant': own['tenant']} if own.get('tenant') else {}))}"
        try:
            conninfo = make_conninfo("", **conninfo_to_dict(uri))
        except ProgrammingError:
            # libpq quotes what it does not understand, which may be a password.
            raise CollectionError(
                shown, "is no URL that PostgreSQL understands; is a character not %-encoded?"
            ) from None
        for what, value in (("store", name), ("tenant", own.get("tenant", "")), ("schema", own.get("schema", ""))):
            if len(value) > _MOST_IN_NAME or "\x00" in value:
                raise CollectionError(shown, f"the {what}'s name has more than {_MOST_IN_NAME} characters, or a NUL.")
        return cls(
            conninfo=conninfo,
            shown=shown,
            store=name,
            tenant=own.get("tenant", ""),
            schema=own.get("schema") or DEFAULT_SCHEMA,
            connections=_number(shown, own, "connections", 8, least=1),
            statement_timeout=_number(shown, own, "statement_timeout", 120.0, least=0.0),
            row_security=_flag(shown, own, "row_security"),
            partition=_flag(shown, own, "partition"),
            mode=_mode(shown, own),
        )


def _host_and_database(base: str) -> str:
    # Not parsed, since it may be no URL at all.
    return "postgresql://" + without_credentials(base).partition("://")[2].removeprefix("***@")


def _number(shown: str, own: dict[str, str], name: str, default: T, *, least: T) -> T:
    if name not in own:
        return default
    try:
        value = type(default)(own[name])
    except ValueError:
        value = None
    if value is None or not least <= value < 1_000_000:
        raise CollectionError(shown, f"{name}={own[name]} in the URL is no number from {least} on.")
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
