"""The states of conversations: in Redis, else in the store's collection, else in this process.

The copy in the collection is the last resort: Redis may lose its states at any time, and lets them expire. A state that
Redis did not take is marked there as waiting, also for the next process, and merged with that of Redis later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from devmem.errors import CollectionClosedError
from devmem_stores.brain.config import (
    BrainBusyError,
    BrainCacheError,
    BrainFallbackError,
    CacheContentError,
    CacheRefusedError,
    CacheUnavailableError,
    ChatKey,
    escaped,
)
from devmem_stores.brain.local_states import LocalStates, Stored
from devmem_stores.brain.redis_cache import RedisCache
from devmem_stores.brain.state import MARKS, BrainState, dump_state, load_state, merge

TRIES: Final = 200
"""Attempts at a write which others keep making in vain."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """Contents of every place when a state was read, for compare-and-set."""

    state: BrainState | None = None
    remote: bytes | None = None
    local: bytes | None = None
    held: bytes | None = None
    shared: bool = False
    """Whether Redis answered."""
    readable: bool = True
    """Whether the value on this machine, if any, could be read."""
    waiting: bool = False
    """Whether Redis lacks some of the state, and did not take it."""
    diverged: bool = False
    """Whether the states in Redis and on this machine were changed apart, as after the one in Redis expired."""
    failures: list[BrainCacheError]


class HeldStates:
    """Contents of states that no other place took; they end with the process."""

    place = "this process's memory"

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> bytes | None:
        """Return the content of a state."""
        return self._bodies.get(key)

    def put(self, key: str, body: bytes, *, expected: bytes | None) -> bool:
        """Replace the expected content; return False when another one is there."""
        with self._lock:
            if self._bodies.get(key) != expected:
                return False
            self._bodies[key] = body
            return True

    def remove(self, key: str) -> None:
        """Forget a state."""
        with self._lock:
            self._bodies.pop(key, None)

    def keys(self) -> list[str]:
        """Return the keys of all states."""
        with self._lock:
            return list(self._bodies)


class StatePlaces:
    """Reads a state from every place and writes it to them by compare-and-set; failures are added to what was seen."""

    def __init__(self, store: str, redis: RedisCache | None, local: LocalStates, *, prefix: str) -> None:
        self._store, self._redis, self._local = store, redis, local
        self._prefix = escaped(prefix)
        self._held = HeldStates()
        self._closed = False
        self.may_wait = True
        """Whether a state may be waiting for a place that did not take it."""

    def read(self, key: ChatKey) -> Seen:
        """Return a state as all places together have it."""
        if self._closed:
            raise CollectionClosedError(self._store, "the store was closed.")
        seen = Seen(failures=[])
        self._read_local(str(key), seen)
        if self._redis is not None:
            self._read_shared(key, self._redis, seen)
        return seen

    def _read_local(self, key: str, seen: Seen) -> None:
        try:
            stored = self._local.get(key)
            if stored is not None:
                seen.local, seen.waiting = stored.body, stored.waiting
                seen.state = self._parsed(stored.body, self._local.place)
        except BrainCacheError as error:
            seen.failures.append(error)
            seen.readable = False
        held = self._held.get(key)
        if held is not None:
            state = self._parsed(held, self._held.place)
            seen.held, seen.waiting = held, True
            seen.state = merge(seen.state, state) if seen.state is not None else state

    def _read_shared(self, key: ChatKey, redis: RedisCache, seen: Seen) -> None:
        try:
            seen.remote = redis.get(self._remote_key(key))
            shared = self._parsed(seen.remote, redis.place) if seen.remote is not None else None
        except BrainCacheError as error:
            seen.failures.append(error)
            return
        seen.shared = True
        if shared is None:
            return
        if seen.state is None or (not seen.waiting and shared.descends_from(seen.state)):
            seen.state = shared
            return
        merged = merge(shared, seen.state)
        seen.diverged = replace(merged, version=shared.version, marks=shared.marks) != shared
        seen.state = merged if seen.diverged or seen.waiting else shared

    def refresh_local(self, key: str, seen: Seen) -> None:
        """Keep what others wrote to Redis here too, as it expires there."""
        if seen.remote is None or seen.state is None or not seen.readable or seen.remote == seen.local:
            return
        if seen.waiting or seen.diverged:
            return
        try:
            self._local.put(key, Stored(body=seen.remote, waiting=False), expected=seen.local)
        except BrainCacheError as error:
            seen.failures.append(error)

    def write(self, key: ChatKey, new: BrainState, seen: Seen) -> bool:
        """Write a state; return False when another process was faster. Failures are added to `seen`."""
        shared = False
        if self._redis is not None and seen.shared:
            try:
                if not self._redis.put(self._remote_key(key), dump_state(new), expected=seen.remote):
                    return False
                shared = True
            except BrainCacheError as error:
                seen.failures.append(error)
        waits = self._redis is not None and not shared
        self.may_wait = self.may_wait or waits
        stored = Stored(body=dump_state(new), waiting=waits)
        return self._write_local(str(key), stored, seen) or shared

    def _write_local(self, key: str, stored: Stored, seen: Seen) -> bool:
        """Write a state on this machine; return False when another process was faster and Redis does not have it."""
        shared = self._redis is not None and not stored.waiting
        if seen.readable:
            try:
                if self._local.put(key, stored, expected=seen.local):
                    self._held.remove(key)
                    return True
                if shared:
                    self._copy(key, stored)
            except BrainCacheError as error:
                seen.failures.append(error)
            else:
                return shared
        if shared:
            # Redis has it; its own copy would bring back what is forgotten there.
            self._held.remove(key)
            return True
        self.may_wait = True
        return self._held.put(key, stored.body, expected=seen.held)

    def _copy(self, key: str, stored: Stored) -> None:
        """Copy the state of Redis into the collection after another process has written there."""
        own = self._parsed(stored.body, "Redis")
        for _ in range(TRIES):
            found = self._local.get(key)
            copy = stored
            if found is not None:
                other = self._parsed(found.body, self._local.place)
                if found.waiting:
                    self.may_wait = True
                    copy = Stored(body=dump_state(merge(other, own)), waiting=True)
                elif other.version >= own.version:
                    # Made of what Redis had after this.
                    return
            if self._local.put(key, copy, expected=found.body if found else None):
                return
        raise BrainBusyError(self._store, TRIES)

    def discard(self, key: ChatKey, seen: Seen) -> bool:
        """Remove a state from every place, as it was seen there; return False when another process was faster."""
        redis, remote = self._redis, seen.remote
        if redis is not None and remote is not None and not redis.discard(self._remote_key(key), expected=remote):
            return False
        if seen.held is not None:
            self._held.remove(str(key))
        return seen.local is None or self._local.discard(str(key), expected=seen.local)

    def known(self, failures: list[BrainCacheError]) -> list[ChatKey]:
        """Return the conversations that any place has."""
        found = dict.fromkeys([*self._local_keys(failures), *self._held.keys()])
        if self._redis is not None:
            try:
                start = f"{self._prefix}:"
                found |= dict.fromkeys(key.removeprefix(start) for key in self._redis.keys(start))
            except BrainCacheError as error:
                failures.append(error)
        return [ChatKey.parse(key) for key in found]

    def waiting(self, failures: list[BrainCacheError]) -> list[ChatKey]:
        """Return the conversations whose states are not yet where they belong."""
        late = self._local_keys(failures, waiting=True) if self._redis is not None else []
        return [ChatKey.parse(key) for key in dict.fromkeys([*late, *self._held.keys()])]

    def _local_keys(self, failures: list[BrainCacheError], *, waiting: bool = False) -> list[str]:
        try:
            return self._local.keys(waiting=waiting)
        except BrainCacheError as error:
            failures.append(error)
            return []

    def best_but(self, failed: Collection[str]) -> str:
        """Return the best place that did not fail."""
        places = [*([self._redis.place] if self._redis else []), self._local.place]
        return next((place for place in places if place not in failed), self._held.place)

    def close(self) -> None:
        """Release the connections."""
        self._closed = True
        if self._redis is not None:
            self._redis.close()

    def _remote_key(self, key: ChatKey) -> str:
        return f"{self._prefix}:{key}"

    def _parsed(self, body: bytes, place: str) -> BrainState:
        try:
            return load_state(body)
        except ValueError as error:
            raise CacheContentError(place, "read a conversation", f"the value is not one ({error})") from None


_LOG: Final = logging.getLogger(__name__)
_LOCKS: Final = 64

Change = Callable[[BrainState], BrainState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Result of reading or changing a state."""

    state: BrainState | None
    """None when no place has a state of the conversation."""
    failure: BrainFallbackError | None = None


class StateStore:
    """One state for each conversation, changed by compare-and-set; safe to use from several threads and processes."""

    def __init__(self, store: str, redis: RedisCache | None, local: LocalStates, *, prefix: str) -> None:
        self._store, self._redis = store, redis
        self._places = StatePlaces(store, redis, local, prefix=prefix)
        # Conversations that share a lock wait for each other now and then; a lock each would pile up.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._degraded = False

    @property
    def redis_place(self) -> str | None:
        """Where Redis is; None without it."""
        return self._redis.place if self._redis is not None else None

    def load(self, key: ChatKey) -> Kept:
        """Return the state from the best place that answers."""
        seen = self._places.read(key)
        self._places.refresh_local(str(key), seen)
        return Kept(state=seen.state, failure=self._reported(seen.failures))

    def update(self, key: ChatKey, change: Change, *, fresh: Callable[[], BrainState] = BrainState) -> Kept:
        """Change a state atomically; an unchanged state is not written.

        Args:
            key: the conversation.
            change: returns the new state for the old one; called again after a concurrent change.
            fresh: returns the initial state where there is none.

        Raises:
            BrainBusyError: concurrent changes prevented it.
        """
        with self._lock(key):
            kept = self._updated(key, change, fresh)
        if self._places.may_wait and kept.failure is None:
            self.flush()
        return kept

    def _updated(self, key: ChatKey, change: Change, fresh: Callable[[], BrainState]) -> Kept:
        marks: set[str] = set()
        for _ in range(TRIES):
            seen = self._places.read(key)
            old = seen.state if seen.state is not None else fresh()
            if not marks.isdisjoint(old.marks):
                # It was written after all: only the answer was lost.
                return Kept(state=old, failure=self._reported(seen.failures))
            new = change(old)
            late = (seen.waiting or seen.diverged) and (seen.shared or self._redis is None)
            if new == old and not late:
                return Kept(state=old, failure=self._reported(seen.failures))
            mark = uuid4().hex[:16]
            marks.add(mark)
            new = replace(new, version=old.version + 1, marks=(*old.marks, mark)[-MARKS:])
            if self._places.write(key, new, seen):
                return Kept(state=new, failure=self._reported(seen.failures))
        raise BrainBusyError(self._store, TRIES)

    def flush(self) -> BrainFallbackError | None:
        """Write waiting states to where they belong, if that works again; return what still prevents it."""
        if not self._places.may_wait or (self._redis is not None and self._redis.resting):
            return None
        # Before looking: a write that has to wait meanwhile says so again.
        self._places.may_wait = False
        failures: list[BrainCacheError] = []
        for key in self._places.waiting(failures):
            with self._lock(key):
                kept = self._updated(key, lambda state: state, BrainState)
            failures += kept.failure.causes if kept.failure else ()
            if any(isinstance(failure, CacheUnavailableError | CacheRefusedError) for failure in failures):
                # The others would fail alike.
                break
        self._places.may_wait = self._places.may_wait or bool(failures)
        return self._reported(failures) if failures else None

    def discard_empty(self) -> None:
        """Remove the states of conversations of which nothing is left, whose keys name their users.

        Raises:
            BrainCacheError: a place cannot do its part.
        """
        for key in self.known():
            with self._lock(key):
                seen = self._places.read(key)
                if seen.failures:
                    raise seen.failures[0]
                # One that another process has changed meanwhile is not empty.
                if seen.state is not None and seen.state.is_empty:
                    self._places.discard(key, seen)

    def is_dirty(self, key: ChatKey) -> bool:
        """Whether some of the state is not yet where it belongs."""
        return self._places.read(key).waiting

    def known(self) -> list[ChatKey]:
        """Return the conversations that any place has."""
        failures: list[BrainCacheError] = []
        found = self._places.known(failures)
        self._reported(failures)
        return found

    def close(self) -> None:
        """Release the connections."""
        self._places.close()

    def _lock(self, key: ChatKey) -> threading.Lock:
        return self._locks[hash(key) % _LOCKS]

    def _reported(self, failures: list[BrainCacheError]) -> BrainFallbackError | None:
        """Return the failures as one error, and log when they begin and end."""
        if not failures:
            if self._degraded:
                self._degraded = False
                _LOG.info("memory store %r keeps its conversations where it should again", self._store)
            return None
        used = self._places.best_but({failure.place for failure in failures})
        failure = BrainFallbackError(self._store, used, failures)
        if not self._degraded:
            self._degraded = True
            _LOG.warning("%s", failure)
        return failure
