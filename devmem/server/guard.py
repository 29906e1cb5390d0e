"""Checks before every request: the host that it names, the page that it comes from, its token, its size and rate.

It is written against ASGI alone, so any application can stand behind it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from http import HTTPStatus
from mmap import mmap
from tempfile import TemporaryFile
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import numpy as np

from devmem.errors import DataFileError
from devmem.memory import Memory
from devmem.server.tokens import Token, TokenFile

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine reaches."""
MAX_WORKERS: Final = 64
"""Maximum number of processes of one server."""
_OF_REQUEST: Final = "devmem.token"
"""Key of a request's token in its ASGI scope."""
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]@/\s]+)(:\d{1,5})?")
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a holder of a token may ask for."""

    body: int = 4 * 1024 * 1024
    """Maximum size of a request in bytes."""
    body_seconds: float = 30.0
    """Maximum number of seconds that a request takes to arrive."""
    per_minute: int = 600
    """Requests of one token a minute; as many may come at once."""
    at_once: int = 100
    """Requests of one token that are in progress, streams among them."""


def checked_address(
    host: str, port: int, *, has_tokens: bool = False, is_confirmed: bool = False, allowed: Collection[str] = ()
) -> socket.socket:
    """Return a socket that is bound to an address.

    Args:
        host: name or address of this machine.
        port: number of the port.
        has_tokens: whether each request has to bring a token.
        is_confirmed: whether TLS ends in a proxy before the server, or it is accepted that it is missing.
        allowed: names by which clients reach the server, beside `host`.

    Raises:
        ValueError: other machines would reach the host without a token, without TLS that is confirmed, or by no name;
            or another program has the port.
    """
    if host not in LOOPBACK:
        if not has_tokens:
            raise ValueError(
                f"without tokens a memory is served on this machine only ({', '.join(LOOPBACK)}), not on {host!r}: "
                "make a token for each user (`devmem mcp --add-token NAME`) and name their file with --tokens, or put "
                "a proxy before it that knows its users"
            )
        if not is_confirmed:
            raise ValueError(
                f"on {host!r} tokens and memories would cross the network unencrypted: put a proxy that ends TLS "
                "before the server and confirm it with --behind-tls, or accept the risk with --plain-http"
            )
        if _is_wildcard(host) and not allowed:
            raise ValueError(
                f"{host!r} means every address of this machine: name the hosts by which clients reach it "
                "(--allow-host memory.example.org)"
            )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"cannot listen on port {port} of {host}: {error.strerror}; choose another port") from error


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return not host


def token_of(scope: Mapping[str, Any]) -> Token | None:
    """Return the token that a guard found in a request; None where no token is needed."""
    token = scope.get(_OF_REQUEST)
    return token if isinstance(token, Token) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAccess:
    """The memory that one request may reach, and whether it may change it."""

    memory: Memory
    read_only: bool
    actor: str | None = None
    """Name of the token, under which changes are recorded; None where no token is needed."""
    _is_valid: Callable[[], bool] = lambda: True

    def is_valid(self) -> bool:
        """Whether the token is still accepted, for what lasts longer than a request."""
        return self._is_valid()


class Door:
    """Decides what each request reaches: the scope of its token, or without tokens a handle that all share."""

    def __init__(self, memory: Memory, *, tokens: TokenFile | None = None, read_only: bool = False) -> None:
        """Serve a memory; with `tokens` nothing is reached without one of them."""
        self._memory, self.tokens, self._read_only = memory, tokens, read_only
        self._shared = TokenAccess(memory=memory.scoped(), read_only=read_only)

    def access(self, scope: Mapping[str, Any] | None) -> TokenAccess:
        """Return what a request may reach, of which `scope` is the ASGI scope.

        Raises:
            PermissionError: it needs a token, and no guard found one.
        """
        if (tokens := self.tokens) is None:
            return self._shared
        token = token_of(scope or {})
        if token is None:
            raise PermissionError("a token is needed")
        return TokenAccess(
            memory=token.handle(self._memory),
            read_only=self._read_only or token.read_only,
            actor=token.name,
            _is_valid=lambda: tokens.is_valid(token),
        )


@dataclass(slots=True)
class _RefusedError(Exception):
    status: HTTPStatus
    message: str
    headers: dict[str, str] = field(default_factory=dict)


_ROW: Final = np.dtype([("digest", "S64"), ("left", "f8"), ("at", "f8"), ("busy", "u4", MAX_WORKERS)])
_ROWS: Final = 1 << 13


class Allowances:
    """Count the requests of each token, and those in progress, for all workers of a server together."""

    def __init__(
        self, limits: Limits | None = None, *, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the limits, and the number of processes that will be forked; `clock` never goes back."""
        self.worker = 0
        """Number of this process among them."""
        self.limits, self._clock = limits or Limits(), clock
        self._lock = threading.Lock()
        self._file = TemporaryFile() if workers > 1 else None  # noqa: SIM115 - open as long as the server
        shared = None
        if self._file is not None:
            self._file.truncate(_ROWS * _ROW.itemsize)
            shared = mmap(self._file.fileno(), 0)
        self._rows = np.zeros(_ROWS, _ROW) if shared is None else np.frombuffer(shared, _ROW)

    def forget_worker(self) -> None:
        """Forget the requests that were in progress in the process of this number before it died."""
        with self._exclusive():
            self._rows["busy"][:, self.worker] = 0

    @contextmanager
    def request(self, token: Token) -> Iterator[None]:
        """Count a request of a token while it is in progress; raise `_RefusedError` where it is one too many."""
        now, limits = self._clock(), self.limits
        with self._exclusive():
            row = self._row(token.digest.encode(), now)
            row["left"] = min(float(limits.per_minute), row["left"] + (now - row["at"]) * limits.per_minute / 60)
            row["at"] = now
            if row["left"] < 1:
                wait = str(int((1 - row["left"]) * 60 / limits.per_minute) + 1)
                message = f"more than {limits.per_minute} requests a minute; try again in {wait} s"
                raise _RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, {"retry-after": wait})
            if row["busy"].sum() >= limits.at_once:
                message = f"more than {limits.at_once} requests at once; wait for answers"
                raise _RefusedError(HTTPStatus.TOO_MANY_REQUESTS, message, {"retry-after": "1"})
            row["left"] -= 1
            row["busy"][self.worker] += 1
        try:
            yield
        finally:
            with self._exclusive():
                row["busy"][self.worker] -= 1

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._lock:
            if self._file is None:
                yield
                return
            import fcntl

            # It is released where a worker dies; forked processes have the file, but not the lock, in common.
            fcntl.lockf(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _row(self, digest: bytes, now: float) -> Any:  # noqa: ANN401 - a row of the table
        start = int(digest[:8], 16)
        for step in range(_ROWS):
            row = self._rows[(start + step) % _ROWS]
            if row["digest"] == digest:
                return row
            if not row["digest"]:
                break
        else:
            # Tokens that were revoked long ago have filled the table; the others begin their minute again.
            self._rows[self._rows["busy"].sum(axis=1) == 0] = 0
            return self._row(digest, now)
        row["digest"], row["left"], row["at"] = digest, self.limits.per_minute, now
        return row


class Guard:
    """Lets a request through to an application, or answers it with the reason why not.

    It refuses requests that name a host which is not the server's, as a page whose name was rebound to this address
    does; those of pages of other origins; those without a valid token, where there are tokens; those that are too
    large, and those of a token that sends too many.
    """

    def __init__(
        self,
        app: App,
        *,
        hosts: Collection[str] = LOOPBACK,
        tokens: TokenFile | None = None,
        limits: Limits | None = None,
        allowances: Allowances | None = None,
        public: Collection[str] = (),
    ) -> None:
        """Guard an application.

        Args:
            app: the application.
            hosts: names by which clients reach it; of pages on these hosts, requests are admitted too.
            tokens: of which a request needs one; None is none.
            limits: of size and rate; the latter of tokens only.
            allowances: counts of the rates that workers share, with their limits; None makes some of its own.
            public: paths that need no token, such as a description of the interface.
        """
        self._app, self._tokens, self._allowances = app, tokens, allowances or Allowances(limits)
        self._limits = self._allowances.limits
        self._hosts = frozenset(_bare(host) for host in hosts)
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer an ASGI request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        try:
            headers = scope["headers"]
            self._check_host(headers)
            token = await self._token(scope, headers)
            if token is not None:
                scope[_OF_REQUEST] = token
            with nullcontext() if token is None else self._allowances.request(token):
                received = await self._received(scope["method"], headers, receive)
                if received is not None:
                    await self._app(scope, received, send)
        except _RefusedError as refusal:
            await _answer(refusal, send)

    def _check_host(self, headers: _Headers) -> None:
        named = _values(headers, b"host")
        found = _HOST.fullmatch(named[0]) if len(named) == 1 else None
        if found is None or _bare(found["name"]) not in self._hosts:
            raise _RefusedError(
                HTTPStatus.MISDIRECTED_REQUEST, "this server does not have this host name (--allow-host adds one)"
            )
        for origin in _values(headers, b"origin"):
            # An origin such as `null` has no host.
            if _origin_host(origin) not in self._hosts:
                raise _RefusedError(HTTPStatus.FORBIDDEN, "pages of this origin may not use this server")

    async def _token(self, scope: Scope, headers: _Headers) -> Token | None:
        if self._tokens is None or scope["path"] in self._public:
            return None
        given = _values(headers, b"authorization")
        kind, _, secret = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        try:
            # The file is read again where it has changed, which may wait for the disk.
            token = await asyncio.to_thread(self._tokens.verify, secret.strip()) if kind.lower() == "bearer" else None
        except (OSError, DataFileError) as error:
            _LOG.error("no token can be verified: %s", error)
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "no token can be verified now") from error
        if token is None:
            reason = 'Bearer error="invalid_token"' if given else "Bearer"
            raise _RefusedError(
                HTTPStatus.UNAUTHORIZED,
                "a valid token is needed (Authorization: Bearer ...)",
                {"www-authenticate": reason},
            )
        return token

    async def _received(self, method: str, headers: _Headers, receive: Receive) -> Receive | None:
        """Read a request as a whole, within the limits, and return what hands it on; None where the client has left."""
        if method in ("GET", "HEAD", "OPTIONS"):
            return receive
        too_large = _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"more than {self._limits.body:,} bytes")
        length = _values(headers, b"content-length")
        if length and length[0].isdecimal() and (len(length[0]) > 18 or int(length[0]) > self._limits.body):
            raise too_large
        parts: list[Message] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while not parts or parts[-1].get("more_body"):
                    parts.append(await receive())
                    size += len(parts[-1].get("body", b""))
                    if size > self._limits.body:
                        raise too_large
        except TimeoutError as error:
            message = f"the request took more than {self._limits.body_seconds:.0f} seconds to arrive"
            raise _RefusedError(HTTPStatus.REQUEST_TIMEOUT, message) from error
        if parts[-1]["type"] == "http.disconnect":
            return None
        waiting = iter(parts)

        async def replay() -> Message:
            return next(waiting, None) or await receive()

        return replay


_Headers: TypeAlias = Collection[tuple[bytes, bytes]]


def _values(headers: _Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _bare(host: str) -> str:
    return host.strip("[]").lower().rstrip(".")


def _origin_host(origin: str) -> str | None:
    try:
        parts = urlsplit(origin)
        return _bare(parts.hostname) if parts.scheme in ("http", "https") and parts.hostname else None
    except ValueError:
        return None


async def _answer(refusal: _RefusedError, send: Send) -> None:
    body = json.dumps({"error": {"status": int(refusal.status), "message": refusal.message}}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    encoded = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": int(refusal.status), "headers": encoded})
    await send({"type": "http.response.body", "body": body})
