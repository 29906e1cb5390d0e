"""The map of the shards: which tenant lives where, and what is being moved. Plain data, no I/O.

A tenant without an exception lives in the shard that rendezvous hashing chooses (Thaler and Ravishankar, "Using
Name-Based Mappings to Increase Hit Rates", 1998), so a shard that joins takes its share and no other tenant moves.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self

from devmem.errors import CollectionDamagedError
from devmem.storage.shard import Tenant

_DIGEST: Final = 16
FORMAT: Final = 2
_WITHOUT_DRAINING: Final = 1
"""Format of a map of which no shard was ever drained, so that an earlier devmem reads it."""


def digest_of(tenant: str | None) -> str:
    """Return the hash of a tenant, by which the map knows it: no name is kept in it."""
    named = b"" if tenant is None else b"=" + tenant.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(named, digest_size=_DIGEST).hexdigest()


def home_of(digest: str, ring: Sequence[str]) -> str:
    """Return the shard of a ring that rendezvous hashing chooses for a tenant."""
    return max(ring, key=lambda name: (hashlib.blake2b(f"{name}\0{digest}".encode(), digest_size=8).digest(), name))


class Phase(StrEnum):
    """State of a move."""

    COPY = "copy"
    """The tenant is copied; it is read and written where it was."""
    FREEZE = "freeze"
    """Writers of the tenant wait while the last changes are copied."""
    CLEAN = "clean"
    """The tenant lives in the target; what the source still holds of it is erased."""
    UNDO = "undo"
    """The move was given up; what the target holds is erased."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A tenant on its way from one shard to another."""

    digest: str
    tenant: str | None
    """Name of the tenant, which the map keeps as long as the move takes."""
    source: str
    target: str
    phase: Phase

    @property
    def left_over(self) -> str:
        """The shard whose items of the tenant no reader sees."""
        return self.source if self.phase is Phase.CLEAN else self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardMap:
    """Where the tenants of a store live, as of one version."""

    id: str
    """Id of the sharded store."""
    version: int
    by: str
    """Part of an item's scope by which it is of a tenant."""
    anchor: str
    """Shard in which a change of the map is decided."""
    ring: tuple[str, ...]
    """Shards that tenants are spread over."""
    draining: tuple[str, ...] = ()
    """Shards that have left the ring; tenants live there until they are moved."""
    drained: tuple[str, ...] = ()
    """Shards that were drained: they are empty, and do not join again unasked."""
    exceptions: dict[str, str] = field(default_factory=dict)
    """Shard by tenant, where it is another than that of the ring; by name, or until the tenant is moved."""
    due: tuple[str, ...] = ()
    """Tenants among the exceptions that are to move to their place in the ring."""
    move: Move | None = None
    joining: tuple[str, ...] = ()
    """The next ring, while the tenants that it moves are being listed: their writers wait."""
    unscoped: bool = False
    """Whether items without a tenant were ever written."""

    @property
    def members(self) -> tuple[str, ...]:
        """Shards that tenants live in."""
        return (*self.ring, *self.draining)

    def shard_of(self, tenant: str | None) -> str:
        """Return the shard in which a tenant is read and written."""
        digest = digest_of(tenant)
        return self.exceptions.get(digest) or home_of(digest, self.ring)

    def hidden(self, shard: str) -> Tenant | None:
        """Return the tenant whose items in a shard are no longer, or not yet, those that are read."""
        if self.move is None or self.move.left_over != shard:
            return None
        return Tenant(self.by, self.move.tenant)

    def is_frozen(self, tenant: str | None) -> bool:
        """Whether writers of a tenant have to wait for the next version of the map."""
        digest = digest_of(tenant)
        if self.move is not None and self.move.digest == digest:
            return self.move.phase is Phase.FREEZE
        if not self.joining:
            return False
        if (shard := self.exceptions.get(digest)) is not None:
            return shard not in self.joining
        return home_of(digest, self.joining) != home_of(digest, self.ring)

    @property
    def is_deciding(self) -> bool:
        """Whether the next version of the map may take a tenant from a shard that does not know it yet."""
        return bool(self.joining) or (self.move is not None and self.move.phase is Phase.FREEZE)

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - the fields have their types
        """Return the next version."""
        return replace(self, version=self.version + 1, **changes)

    def placed(self, tenant: str | None, shard: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the exceptions, and those that are due, once a tenant lives in a shard."""
        digest = digest_of(tenant)
        exceptions = {each: name for each, name in self.exceptions.items() if each != digest}
        if home_of(digest, self.ring) != shard:
            exceptions[digest] = shard
        return exceptions, tuple(each for each in self.due if each != digest)

    def to_bytes(self) -> bytes:
        """Return the JSON form."""
        given = {"format": FORMAT, **asdict(self)}
        if not (given["draining"] or given["drained"]):
            given = {name: value for name, value in given.items() if name not in ("draining", "drained")}
            given["format"] = _WITHOUT_DRAINING
        return json.dumps(given, ensure_ascii=True).encode()

    @classmethod
    def from_bytes(cls, raw: bytes, location: str) -> Self:
        """Read the JSON form.

        Raises:
            CollectionDamagedError: it is none, or one of a newer devmem.
        """
        try:
            given = json.loads(raw)
            found = given.pop("format")
            if found not in (FORMAT, _WITHOUT_DRAINING):
                raise CollectionDamagedError(
                    location, f"its map of the shards is of format {found}, known {FORMAT}: upgrade devmem."
                )
            move = given.pop("move")
            given |= {name: tuple(given[name]) for name in ("ring", "due", "joining")}
            given |= {name: tuple(given.get(name, ())) for name in ("draining", "drained")}
            return cls(**given, move=None if move is None else Move(**{**move, "phase": Phase(move["phase"])}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CollectionDamagedError(location, f"its map of the shards cannot be read ({error}).") from error
