"""The databases of a sharded store, and the map of its tenants that all processes agree on.

A change of the map is decided in one shard, the anchor, by compare-and-set, and then copied to the others. A write
carries the version of the map that it was routed by, which its shard compares within the transaction; a read compares
afterwards, and is repeated where a tenant may have moved meanwhile.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Protocol, TypeVar, cast
from uuid import uuid4

from devmem.config.shards import ShardsConfig
from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionDamagedError,
    CollectionError,
    CollectionUnwritableError,
    ShardDownError,
)
from devmem.storage.erasure import ErasableCollection
from devmem.storage.fencing import StaleMapError, expecting_map
from devmem.storage.protocol import ArchivingCollection, Collection
from devmem.storage.shard import ShardCollection
from devmem.storage.sharding.shard_map import Phase, ShardMap
from devmem.storage.tombstones import TombstoneCollection

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_OUTAGES: Final = (CollectionBusyError, CollectionUnwritableError, CollectionDamagedError, ShardDownError)
_PROBE_AFTER: Final = 2.0
"""Seconds after which a shard that could not be reached is tried again, in the background."""
_LOOK_AGAIN: Final = 0.02
"""Seconds between two looks at a map that is about to change."""
PATIENCE: Final = 5.0
"""Seconds without a change after which whoever waits for a change of the map gives it up in the place of its maker."""
_ALL: Final = 8
"""Number of shards that are asked at once."""


class Shard(ShardCollection, ErasableCollection, ArchivingCollection, TombstoneCollection, Protocol):
    """Abilities of a collection that is a shard."""


@dataclass(frozen=True, slots=True)
class Outage:
    """Why a shard cannot be reached, and when that was last tried."""

    error: CollectionError
    at: float


def is_outage(error: CollectionError) -> bool:
    """Whether an error means that a shard cannot be used now, not that it was asked for something wrong."""
    return isinstance(error, _OUTAGES) or type(error) is CollectionError


class FrozenError(Exception):
    """A tenant is about to move: its writer waits for the next version of the map."""


class ShardSet:
    """The shards of a store by name. Thread-safe."""

    def __init__(
        self,
        config: ShardsConfig,
        open_shard: Callable[[str], Collection],
        exists: Callable[[str], bool],
        *,
        patience: float,
    ) -> None:
        """Open the shards that can be reached, and read the map, or make the first one.

        Args:
            config: names and locations.
            open_shard: opens the collection at a location.
            exists: whether a location was ever written to.
            patience: seconds to wait for a tenant that is about to move.

        Raises:
            CollectionError: none can be reached, they are of different stores, or a shard of the map has no location.
        """
        self.config, self._open_shard, self._exists, self._patience = config, open_shard, exists, patience
        self._shards: dict[str, Shard] = {}
        self._outages: dict[str, Outage] = {}
        self._probing: set[str] = set()
        self._lock, self._closed = threading.RLock(), False
        self.executor = ThreadPoolExecutor(max_workers=_ALL, thread_name_prefix="devmem-shards")
        try:
            self.map = self._first_map()
        except BaseException:
            self.close()
            raise

    # Opening.

    def _first_map(self) -> ShardMap:
        places = self.config.shards
        there = [name for name, place in places.items() if self._is_there(name, place)]
        for name in there:
            self._try_open(name)
        maps = {name: found for name in list(self._shards) if (found := self._read_map(name)) is not None}
        if not maps:
            if self._outages:
                raise next(iter(self._outages.values())).error
            return self._make_map()
        newest = max(maps.values(), key=lambda one: one.version)
        for name, found in maps.items():
            if found.id != newest.id:
                raise CollectionError(places[name], f"belongs to another sharded store than {places[newest.anchor]}.")
        self._check(newest)
        for name in newest.members:
            # A shard that joined meanwhile is there by now.
            if name not in there and name not in self._outages and self._is_there(name, places[name]):
                self._try_open(name)
            elif name not in there and name not in self._outages:
                self._outages[name] = Outage(missing_shard(places[name], name), time.monotonic())
        for outage in self._outages.values():
            _LOG.warning("%s", outage.error)
        self._propagate(newest, [name for name, found in maps.items() if found.version < newest.version])
        return newest

    def _check(self, known: ShardMap) -> None:
        """Refuse a configuration that does not name every shard with items, or spreads them by something else."""
        shown = "the shards"
        if missing := [name for name in known.members if name not in self.config.shards]:
            raise CollectionError(
                shown,
                f"tenants live in the shard {missing[0]!r}, and the configuration does not name its database: name it "
                f"again, and move them with `devmem shards drain MEMORY {missing[0]}` before it is left out.",
            )
        if known.by != self.config.by:
            raise CollectionError(
                shown,
                f"are by {known.by}, and the configuration says `by: {self.config.by}`: copy the store to change it.",
            )

    def _is_there(self, name: str, place: str) -> bool:
        try:
            return self._exists(place)
        except CollectionError as error:
            if not is_outage(error):
                raise
            self._outages[name] = Outage(_down(name, error), time.monotonic())
            return False

    def _make_map(self) -> ShardMap:
        """Make the map of a new store, or of one that has been in one database so far."""
        held = [name for name, shard in self._shards.items() if shard.info().items]
        if len(held) > 1:
            raise CollectionError(
                self.config.shards[held[1]],
                f"holds items, as {held[0]!r} does, and neither is a shard yet: begin with one of them, and import the "
                "other.",
            )
        for name in self.config.shards:
            if name not in self._shards:
                self._open(name)
        ring = tuple(held) or tuple(self.config.shards)
        # Whatever the order in which two configurations name the same shards, they agree on where it is decided.
        anchor = min(ring)
        made = ShardMap(id=uuid4().hex, version=1, by=self.config.by, anchor=anchor, ring=ring, unscoped=bool(held))
        if not self[made.anchor].write_shard_map(made.to_bytes(), 1):
            made = self._require_map(made.anchor)
            self._check(made)
        self._propagate(made, made.ring)
        if other := next((name for name in made.ring if self._require_map(name).id != made.id), None):
            raise CollectionError(
                self.config.shards[other], f"belongs to another sharded store than {self.config.shards[made.anchor]}."
            )
        return made

    def _try_open(self, name: str) -> None:
        try:
            self._open(name)
        except CollectionError as error:
            if not is_outage(error):
                raise
            self._outages[name] = Outage(_down(name, error), time.monotonic())

    def _open(self, name: str) -> Shard:
        place = self.config.shards[name]
        opened = self._open_shard(place)
        if not isinstance(opened, ShardCollection):
            opened.close()
            raise CollectionUnwritableError(place, "cannot be a shard: use SQLite files and PostgreSQL databases.")
        with self._lock:
            if self._closed or name in self._shards:
                # Another thread was faster, or the store was closed meanwhile.
                opened.close()
            else:
                self._shards[name] = cast("Shard", opened)
            self._outages.pop(name, None)
            if self._closed:
                raise CollectionClosedError("the shards", "the collection was closed.")
            return self._shards[name]

    # Shards.

    def __getitem__(self, name: str) -> Shard:
        """Return a shard.

        Raises:
            ShardDownError: it cannot be reached.
        """
        if self._closed:
            raise CollectionClosedError("the shards", "the collection was closed.")
        outage = self._outages.get(name)
        if outage is None and name in self._shards:
            return self._shards[name]
        if outage is None:
            return self._open(name)
        if time.monotonic() - outage.at > _PROBE_AFTER:
            self._probe(name)
        # The same error for every call, without the frames of the others.
        raise outage.error.with_traceback(None)

    def note_outage(self, name: str, error: CollectionError) -> ShardDownError:
        """Remember that a shard cannot be reached, so that no call waits for it again; return its error."""
        down = error if isinstance(error, ShardDownError) else _down(name, error)
        with self._lock:
            if name not in self._outages:
                _LOG.warning("%s", down)
                self._outages[name] = Outage(down, time.monotonic())
        return down

    def outage(self, name: str) -> CollectionError:
        """Return the error of a shard that could not be reached."""
        outage = self._outages.get(name)
        return outage.error if outage else _down(name, CollectionError(self.config.shards[name], "it did not answer."))

    def is_at(self, name: str, location: str) -> bool:
        """Whether an error's location is that of a shard."""
        opened = self._shards.get(name)
        return location == getattr(opened, "location", self.config.shards[name])

    def _probe(self, name: str) -> None:
        """Try in the background whether a shard is back."""
        with self._lock:
            if name in self._probing:
                return
            self._probing.add(name)

        def probe() -> None:
            try:
                if name not in self.reload().members:
                    # It was drained meanwhile.
                    with self._lock:
                        self._outages.pop(name, None)
                    return
                if not self._exists(self.config.shards[name]):
                    with self._lock:
                        self._outages[name] = replace(self._outages[name], at=time.monotonic())
                    return
                if (opened := self._shards.get(name)) is None:
                    opened = self._open(name)
                version = opened.shard_map_version()
                with self._lock:
                    self._outages.pop(name, None)
                if version < self.map.version:
                    self._propagate(self.map, [name])
                _LOG.warning("The shard %r can be reached again.", name)
            except CollectionError as error:
                with self._lock:
                    self._outages[name] = Outage(_down(name, error), time.monotonic())
            finally:
                self._probing.discard(name)

        threading.Thread(target=probe, name="devmem-shard-probe", daemon=True).start()

    def each(self, names: Sequence[str], ask: Callable[[str], T]) -> list[T]:
        """Ask some shards at once; return their answers in order. The first error is raised."""
        if len(names) < 2 or self._closed:
            return [ask(name) for name in names]
        asked = [self.executor.submit(contextvars.copy_context().run, ask, name) for name in names]
        return [each.result() for each in asked]

    def reached(self, ask: Callable[[str], T]) -> list[T]:
        """Ask the shards that can be reached; the others are left out, with one warning."""

        def attempt(name: str) -> list[T]:
            try:
                return [ask(name)]
            except CollectionError as error:
                if not is_outage(error):
                    raise
                self.note_outage(name, error)
                return []

        return [answer for found in self.each(self.map.members, attempt) for answer in found]

    def _of_shard(self, error: CollectionError, *, writing: bool = False) -> CollectionError:
        """Return an error as that of the shard at its location, if it means that the shard cannot be used now."""
        if isinstance(error, ShardDownError) or not is_outage(error):
            return error
        name = next((each for each in self.map.members if self.is_at(each, error.location)), None)
        if name is None:
            return error
        if writing and name in self._shards and isinstance(error, CollectionUnwritableError):
            # What a full disk or a standby holds can be read, and the next write may be smaller.
            return _down(name, error)
        return self.note_outage(name, error)

    # The map.

    def _read_map(self, name: str) -> ShardMap | None:
        raw = self[name].shard_map()
        return None if raw is None else ShardMap.from_bytes(raw, self.config.shards[name])

    def _require_map(self, name: str) -> ShardMap:
        found = self._read_map(name)
        if found is None:
            raise CollectionDamagedError(self.config.shards[name], "has no map of the shards any more.")
        return found

    def reload(self) -> ShardMap:
        """Return the newest map that a shard has, and use it from now on."""
        asked: set[str] = set()
        while name := next((each for each in self._in_order() if each not in asked), None):
            asked.add(name)
            try:
                found = self._read_map(name)
            except CollectionError as error:
                self.note_outage(name, error)
                continue
            with self._lock:
                if found is not None and found.version > self.map.version:
                    self.map = found
            if name == self.map.anchor:
                # Every change is decided there.
                break
        self._check(self.map)
        return self.map

    def _in_order(self) -> Iterator[str]:
        """Yield the anchor and the other shards, as far as the configuration names them."""
        return (name for name in (self.map.anchor, *self.map.members) if name in self.config.shards)

    def _propagate(self, known: ShardMap, names: Iterable[str]) -> None:
        value = known.to_bytes()
        for name in names:
            self[name].write_shard_map(value, known.version)

    def _bring_up_to_date(self, known: ShardMap) -> None:
        self.reached(lambda name: self._propagate(known, [name]))

    def bring_up_to_date(self, name: str) -> None:
        """Make sure that a shard has the map that is used here, or a newer one."""
        self._propagate(self.map, [name])

    def change(self, old: ShardMap, new: ShardMap, *, everywhere: bool = True) -> bool:
        """Decide a change of the map, and copy it to the shards.

        Args:
            old: the map that it changes.
            new: its successor.
            everywhere: wait for every shard to have it; otherwise those that cannot be reached get it later.

        Returns:
            Whether the map was still the old one; nothing was changed otherwise.
        """
        # It may have become the anchor with that very version.
        self._propagate(old, [old.anchor])
        if not self[old.anchor].write_shard_map(new.to_bytes(), new.version, replaces=old.version):
            self.reload()
            return False
        with self._lock:
            if new.version > self.map.version:
                self.map = new
        names = dict.fromkeys((*new.members, *new.joining, *old.members))
        for name in names:
            try:
                self._propagate(new, [name])
            except CollectionError as error:
                self.note_outage(name, error)
                if everywhere:
                    raise
        return True

    def read(self, operation: Callable[[ShardMap, set[str]], T]) -> T:
        """Run an operation that reads shards, which it adds to a set; again where the map changed meanwhile."""
        while True:
            known, used = self.map, set[str]()
            try:
                result = operation(known, used)
                if self.is_current(known, used):
                    return result
            except CollectionError as error:
                if (down := self._of_shard(error)) is error:
                    raise
                raise down from error
            self.reload()

    def is_current(self, known: ShardMap, used: Iterable[str]) -> bool:
        """Whether what was read of some shards is what a map says of them."""
        names = dict.fromkeys(chain(used, [known.anchor] if known.is_deciding else ()))
        return max(self.each(list(names), lambda name: self[name].shard_map_version()), default=0) <= known.version

    def write(self, operation: Callable[[ShardMap], T]) -> T:
        """Run an operation that writes; again where the map changed, and where a tenant of it was about to move."""
        deadline, seen, since = time.monotonic() + max(self._patience, 2 * PATIENCE), self.map.version, time.monotonic()
        while True:
            known = self.map
            try:
                with expecting_map(known.version):
                    return operation(known)
            except CollectionError as error:
                if (down := self._of_shard(error, writing=True)) is error:
                    raise
                raise down from error
            except StaleMapError as error:
                if error.version < known.version:
                    # One that is down was not the one that was written to.
                    self._bring_up_to_date(known)
                else:
                    self.reload()
            except FrozenError:
                if time.monotonic() > deadline:
                    raise CollectionBusyError(
                        "the shards", "a tenant is being moved; this write failed as a whole."
                    ) from None
                time.sleep(_LOOK_AGAIN)
                known = self.reload()
                if known.version != seen:
                    seen, since = known.version, time.monotonic()
                elif time.monotonic() - since > PATIENCE:
                    self.thaw(known)

    def thaw(self, known: ShardMap) -> None:
        """Cancel a change of the map whose maker does not go on with it: tenants stay where they are."""
        if known.joining:
            self.change(known, known.changed(joining=()), everywhere=False)
        elif known.move is not None and known.move.phase is Phase.FREEZE:
            self.change(known, known.changed(move=replace(known.move, phase=Phase.COPY)), everywhere=False)

    def close(self) -> None:
        """Close every shard; closing twice is allowed."""
        with self._lock:
            self._closed = True
            shards, self._shards = list(self._shards.values()), {}
        self.executor.shutdown(wait=False)
        for shard in shards:
            shard.close()


def _down(name: str, error: CollectionError) -> ShardDownError:
    reason = str(error).removeprefix(f"{error.location}: ")
    return ShardDownError(error.location, name, f"the shard {name!r} cannot be used: {reason}")


def missing_shard(place: str, name: str) -> ShardDownError:
    """Return the error of a place where a shard should be, and where no store is."""
    return ShardDownError(place, name, f"is missing or empty, and should be the shard {name!r}: is its disk mounted?")
