"""The states of conversations: in Redis, else on this machine, else in this process.

The copy on this machine is the last resort: Redis may lose its states at any time, and lets them expire. A state that
Redis did not take is marked there as waiting, also for the next process, and merged with that of Redis later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from devmem.errors import CollectionClosedError
from devmem_stores.brain.errors import (
    BrainBusyError,
    BrainCacheError,
    BrainFallbackError,
    CacheContentError,
    CacheRefusedError,
    CacheUnavailableError,
)
from devmem_stores.brain.keys import ChatKey, escaped
from devmem_stores.brain.local_states import LocalStates, StatesInProcess, Stored
from devmem_stores.brain.merge import merge
from devmem_stores.brain.redis_cache import RedisCache
from devmem_stores.brain.state import MARKS, BrainState, dump_state, load_state

_LOG: Final = logging.getLogger(__name__)
_TRIES: Final = 200
_LOCKS: Final = 64

Change = Callable[[BrainState], BrainState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Result of reading or changing a state."""

    state: BrainState | None
    """None when no place has a state of the conversation."""
    failure: BrainFallbackError | None = None


@dataclass(slots=True, kw_only=True)
class _Seen:
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


class StateStore:
    """One state for each conversation, changed by compare-and-set; safe to use from several threads and processes."""

    def __init__(self, store: str, redis: RedisCache | None, local: LocalStates, *, prefix: str) -> None:
        self._store, self._redis, self._local = store, redis, local
        self._prefix = escaped(prefix)
        self._held = StatesInProcess()
        # Conversations that share a lock wait for each other now and then; a lock each would pile up.
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._closed = self._degraded = False
        self._may_wait = True

    def load(self, key: ChatKey) -> Kept:
        """Return the state from the best place that answers."""
        seen = self._read(key)
        self._refresh_local(str(key), seen)
        return Kept(state=seen.state, failure=self._reported(seen.failures))

    def _refresh_local(self, key: str, seen: _Seen) -> None:
        """Keep what others wrote to Redis here too, as it expires there."""
        if seen.remote is None or seen.state is None or not seen.readable or seen.remote == seen.local:
            return
        if seen.waiting or seen.diverged:
            return
        try:
            stored = Stored(body=seen.remote, version=seen.state.version, waiting=False)
            self._local.put(key, stored, expected=seen.local)
        except BrainCacheError as error:
            seen.failures.append(error)

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
        if self._may_wait and kept.failure is None:
            self.flush()
        return kept

    def _updated(self, key: ChatKey, change: Change, fresh: Callable[[], BrainState]) -> Kept:
        marks: set[str] = set()
        for _ in range(_TRIES):
            seen = self._read(key)
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
            if self._write(key, new, seen):
                return Kept(state=new, failure=self._reported(seen.failures))
        raise BrainBusyError(self._store, _TRIES)

    def flush(self) -> BrainFallbackError | None:
        """Write waiting states to where they belong, if that works again; return what still prevents it."""
        if not self._may_wait or (self._redis is not None and self._redis.resting):
            return None
        # Before looking: a write that has to wait meanwhile says so again.
        self._may_wait = False
        failures: list[BrainCacheError] = []
        for key in self._waiting(failures):
            with self._lock(key):
                kept = self._updated(key, lambda state: state, BrainState)
            failures += kept.failure.causes if kept.failure else ()
            if any(isinstance(failure, CacheUnavailableError | CacheRefusedError) for failure in failures):
                # The others would fail alike.
                break
        self._may_wait = self._may_wait or bool(failures)
        return self._reported(failures) if failures else None

    def is_dirty(self, key: ChatKey) -> bool:
        """Whether some of the state is not yet where it belongs."""
        return self._read(key).waiting

    def known(self) -> list[ChatKey]:
        """Return the conversations that any place has."""
        failures: list[BrainCacheError] = []
        found = dict.fromkeys([*self._local_keys(failures), *self._held.keys()])
        if self._redis is not None:
            try:
                start = f"{self._prefix}:"
                found |= dict.fromkeys(key.removeprefix(start) for key in self._redis.keys(start))
            except BrainCacheError as error:
                failures.append(error)
        self._reported(failures)
        return [ChatKey.parse(key) for key in found]

    def close(self) -> None:
        """Release connections and files."""
        self._closed = True
        if self._redis is not None:
            self._redis.close()
        self._local.close()

    def _lock(self, key: ChatKey) -> threading.Lock:
        return self._locks[hash(key) % _LOCKS]

    def _local_keys(self, failures: list[BrainCacheError], *, waiting: bool = False) -> list[str]:
        try:
            return self._local.keys(waiting=waiting)
        except BrainCacheError as error:
            failures.append(error)
            return []

    def _waiting(self, failures: list[BrainCacheError]) -> list[ChatKey]:
        late = self._local_keys(failures, waiting=True) if self._redis is not None else []
        return [ChatKey.parse(key) for key in dict.fromkeys([*late, *self._held.keys()])]

    def _read(self, key: ChatKey) -> _Seen:
        if self._closed:
            raise CollectionClosedError(self._store, "the store was closed.")
        seen = _Seen(failures=[])
        self._read_local(str(key), seen)
        if self._redis is not None:
            self._read_shared(key, self._redis, seen)
        return seen

    def _read_local(self, key: str, seen: _Seen) -> None:
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
            state = self._parsed(held.body, self._held.place)
            seen.held, seen.waiting = held.body, True
            seen.state = merge(seen.state, state) if seen.state is not None else state

    def _read_shared(self, key: ChatKey, redis: RedisCache, seen: _Seen) -> None:
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

    def _write(self, key: ChatKey, new: BrainState, seen: _Seen) -> bool:
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
        self._may_wait = self._may_wait or waits
        stored = Stored(body=dump_state(new), version=new.version, waiting=waits)
        return self._write_local(str(key), stored, seen) or shared

    def _write_local(self, key: str, stored: Stored, seen: _Seen) -> bool:
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
            # Redis has it; a copy of its own would bring back what is forgotten there.
            self._held.remove(key)
            return True
        self._may_wait = True
        return self._held.put(key, stored, expected=seen.held)

    def _copy(self, key: str, stored: Stored) -> None:
        """Copy the state of Redis into the file after another process has written there."""
        for _ in range(_TRIES):
            found = self._local.get(key)
            copy = stored
            if found is not None and found.waiting:
                self._may_wait = True
                joined = merge(self._parsed(found.body, self._local.place), self._parsed(stored.body, "Redis"))
                copy = Stored(body=dump_state(joined), version=joined.version, waiting=True)
            elif found is not None and found.version >= stored.version:
                # Made of what Redis had after this.
                return
            if self._local.put(key, copy, expected=found.body if found else None):
                return
        raise BrainBusyError(self._store, _TRIES)

    def _remote_key(self, key: ChatKey) -> str:
        return f"{self._prefix}:{key}"

    def _parsed(self, body: bytes, place: str) -> BrainState:
        try:
            return load_state(body)
        except ValueError as error:
            raise CacheContentError(place, "read a conversation", f"the value is not one ({error})") from None

    def _reported(self, failures: list[BrainCacheError]) -> BrainFallbackError | None:
        """Return the failures as one error, and log when they begin and end."""
        if not failures:
            if self._degraded:
                self._degraded = False
                _LOG.info("memory store %r keeps its conversations where it should again", self._store)
            return None
        failed = {failure.place for failure in failures}
        places = [*([self._redis.place] if self._redis else []), self._local.place]
        used = next((place for place in places if place not in failed), self._held.place)
        failure = BrainFallbackError(self._store, used, failures)
        if not self._degraded:
            self._degraded = True
            _LOG.warning("%s", failure)
        return failure
