"""Users of a server: bearer tokens with their scopes, in a file that holds their hashes only."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from devmem.errors import DataFileError
from devmem.memory import Memory
from devmem.memory.scope import ScopeParts, checked_name
from devmem.model.items import ANY
from devmem.text.files import OWNER_ONLY, remove_leftovers, replace_file

_PREFIX: Final = "devmem_"
"""Start of every token, by which scanners of repositories recognise one."""
_SECRET_BYTES: Final = 32
_LONGEST: Final = 200
"""Characters beyond which nothing is a token of ours."""
_LOCK_WAIT: Final = 10.0
"""Seconds to wait for another process that changes the file."""


class Token(BaseModel):
    """A token as its file has it: whose it is, and what its holder may do. The token itself cannot be read from it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    """Name by which it is listed and revoked; changes are recorded under it."""
    digest: str = Field(pattern="^[0-9a-f]{64}$", repr=False)
    """SHA-256 of the token, which has 256 random bits, so that no slow hash is needed."""
    user: str | None = None
    """The user whose memories it reaches; None for unscoped ones."""
    agent: str | None = None
    conversation: str | None = None
    all_users: bool = False
    """Whether it reaches the memories of every user."""
    read_only: bool = False
    created_at: float
    """Seconds since the epoch."""
    expires_at: float | None = None
    """Seconds since the epoch from which on it is refused; None is never."""

    def scope(self) -> ScopeParts:
        """Return the scope that it is limited to."""
        return {"user": ANY if self.all_users else self.user, "agent": self.agent, "conversation": self.conversation}

    def handle(self, memory: Memory) -> Memory:
        """Return the handle on the part of a memory that it reaches, and never leaves.

        Raises:
            ScopeError: the memory is a handle that does not reach so far.
        """
        parts = self.scope()
        return memory.scoped(**parts) if any(value is not None for value in parts.values()) else memory.scoped()


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    tokens: list[Token] = Field(default_factory=list)


class TokenFile:
    """The tokens of a server; commands change the file while servers read it.

    Only its owner can read it. Servers notice a change with the next request, so a revoked token is refused at once.
    It is safe to use from several threads and processes.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        """Name the file, which the first token creates; `clock` returns the seconds since the epoch."""
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._by_digest: dict[str, Token] = {}

    def tokens(self) -> list[Token]:
        """Return every token, expired ones too, in the order of their making.

        Raises:
            DataFileError: the file is not one of tokens.
            OSError: it cannot be read.
        """
        return self._read().tokens

    def add(
        self,
        name: str,
        *,
        user: str | None = None,
        agent: str | None = None,
        conversation: str | None = None,
        all_users: bool = False,
        read_only: bool = False,
        lifetime: float | None = None,
    ) -> str:
        """Make a token and return it; only its hash is kept, so it cannot be shown again.

        Args:
            name: another one than any token of the file has.
            user: whose memories it reaches; None for unscoped ones.
            agent: restricts it to the memories of an agent.
            conversation: restricts it to those of a conversation.
            all_users: whether it reaches everybody's instead of a user's.
            read_only: whether it changes nothing.
            lifetime: seconds until it expires; None is never.

        Raises:
            ValueError: the name is taken, or a part of the scope is empty, or both a user and everybody are meant.
            DataFileError: the file is not one of tokens, or another process does not release it.
        """
        _check_scope(all_users=all_users, user=user, name=name, agent=agent, conversation=conversation)
        secret = _PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        now = self._clock()
        new = Token(
            name=name,
            digest=_digest(secret),
            user=user,
            agent=agent,
            conversation=conversation,
            all_users=all_users,
            read_only=read_only,
            created_at=now,
            expires_at=None if lifetime is None else now + lifetime,
        )

        self._change(partial(_with_token, self.path, new))
        return secret

    def revoke(self, name: str) -> Token:
        """Remove a token, which is refused from now on, and return what it was.

        Raises:
            ValueError: there is none of this name.
            DataFileError: the file is not one of tokens, or another process does not release it.
        """
        revoked: list[Token] = []

        def left(tokens: Sequence[Token]) -> list[Token]:
            revoked.extend(token for token in tokens if token.name == name)
            if not revoked:
                names = ", ".join(token.name for token in tokens) or "none"
                raise ValueError(f"{self.path} has no token {name!r}; it has: {names}")
            return [token for token in tokens if token.name != name]

        self._change(left)
        return revoked[0]

    def verify(self, secret: str) -> Token | None:
        """Return the token that somebody presents; None for one that is unknown, revoked or expired.

        Raises:
            DataFileError: the file is not one of tokens.
            OSError: it cannot be read.
        """
        if not secret.startswith(_PREFIX) or len(secret) > _LONGEST or not secret.isascii():
            return None
        digest = _digest(secret)
        token = self._known().get(digest)
        # The lookup is by hash, whose timing tells nothing of the token; the comparison keeps it so by its form too.
        if token is None or not hmac.compare_digest(token.digest, digest):
            return None
        return token if self.is_valid(token) else None

    def is_valid(self, token: Token) -> bool:
        """Whether a token that was verified earlier has neither expired nor been revoked since."""
        if token.expires_at is not None and token.expires_at <= self._clock():
            return False
        return self._known().get(token.digest) == token

    def _known(self) -> dict[str, Token]:
        found = self.path.stat()
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        with self._lock:
            if stamp != self._stamp:
                self._by_digest = {token.digest: token for token in self._read().tokens}
                self._stamp = stamp
            return self._by_digest

    def _read(self) -> _Content:
        try:
            return _Content.model_validate_json(self.path.read_bytes())
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(step) for step in problem["loc"])
            raise DataFileError(self.path, f"not a file of tokens: {place and f'{place}: '}{problem['msg']}") from error

    def _change(self, change: Callable[[Sequence[Token]], list[Token]]) -> None:
        try:
            with FileLock(f"{self.path}.lock", timeout=_LOCK_WAIT, mode=OWNER_ONLY):
                remove_leftovers(self.path)
                tokens = self._read().tokens if self.path.exists() else []
                content = _Content(tokens=change(tokens)).model_dump_json(indent=2, exclude_none=True)
                replace_file(self.path, [content.encode() + b"\n"])
        except Timeout as error:
            message = f"another process has not released it for {_LOCK_WAIT:.0f} seconds; try again"
            raise DataFileError(self.path, message) from error


def _check_scope(*, all_users: bool, **parts: str | None) -> None:
    for part, value in parts.items():
        if value is not None:
            checked_name(part, value)
    if all_users and parts["user"] is not None:
        raise ValueError("a token reaches one user's memories or everyone's, not both")


def _with_token(path: Path, new: Token, tokens: Sequence[Token]) -> list[Token]:
    if any(token.name == new.name for token in tokens):
        raise ValueError(f"{path} has a token {new.name!r}; revoke it first, or choose another name")
    return [*tokens, new]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
