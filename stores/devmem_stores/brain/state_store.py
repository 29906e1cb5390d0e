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

from devmem_stores.brain.errors import (
    BrainBusyError,
    BrainCacheError,
    BrainFallbackError,
    CacheRefusedError,
    CacheUnavailableError,
)
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.local_states import LocalStates
from devmem_stores.brain.redis_cache import RedisCache
from devmem_stores.brain.state import MARKS, BrainState
from devmem_stores.brain.state_places import TRIES, StatePlaces

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
        """Release connections and files."""
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
