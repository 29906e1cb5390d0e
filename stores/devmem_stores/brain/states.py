"""Where the states of conversations are: rows of the store's collection, and Redis in front of them.

A row is the last resort: Redis may lose its states at any time, and lets them expire. A state that Redis did not take
is marked as waiting, also for the next process, and merged with that of Redis later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

from devmem.errors import BrainRedisError, CollectionBusyError, CollectionError, MissingExtraError
from devmem.storage import StateKey, StateTable
from devmem.text import Backoff
from devmem_stores.brain.config import ChatKey, RedisConfig, escaped
from devmem_stores.brain.state import BrainState, dump_state, load_state, merge

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")

STATE: Final = "conversation"
WAITING: Final = "conversation that waits for Redis"
_TRIES: Final = 200
"""Attempts at a write which others keep making in vain."""
_LONGEST_PAUSE: Final = 60.0
_LOG: Final = logging.getLogger(__name__)
_REPLACE: Final = """
local found = redis.call('GET', KEYS[1]) or ''
if found ~= ARGV[1] then return 0 end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1
"""
"""Compare and set; the empty text stands for no value."""


class RedisStates:
    """States in a Redis server; after a failure requests back off. Every method raises `BrainRedisError`."""

    def __init__(self, config: RedisConfig, *, prefix: str, clock: Callable[[], float]) -> None:
        """Prepare the connections; nothing is sent yet. `clock` is monotonic, in seconds.

        Raises:
            MissingExtraError: the `redis` package is not installed.
        """
        try:
            import redis
        except ImportError as error:
            raise MissingExtraError(feature="`redis` of a brain store", package="redis", extra="redis") from error
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        self._redis, self._prefix, self._ttl = redis, escaped(prefix), config.ttl
        password = {"password": config.password.get_secret_value()} if config.password else {}
        # A write that is sent twice could not tell its own value from that of another process.
        self._client: Redis = redis.Redis.from_url(
            config.url.get_secret_value(),
            socket_timeout=config.timeout,
            socket_connect_timeout=config.timeout,
            retry=Retry(NoBackoff(), 0),
            **password,
        )
        parts = urlsplit(config.url.get_secret_value())
        self.place = f"Redis at {parts.hostname or parts.path}" + (f":{parts.port}" if parts.port else "")
        self._backoff = Backoff(first=config.retry_after, longest=_LONGEST_PAUSE, clock=clock)
        self._last: BrainRedisError | None = None

    @property
    def resting(self) -> bool:
        """Whether requests back off now."""
        return self._backoff.left > 0

    def get(self, key: ChatKey) -> tuple[bytes | None, BrainState | None]:
        """Return the value of a conversation's key, and the state that it is."""

        def read() -> bytes | None:
            try:
                return self._client.get(f"{self._prefix}:{key}")  # type: ignore[return-value] # not of an async client
            except self._redis.ConnectionError:
                # The server may have closed the connection since the last request.
                return self._client.get(f"{self._prefix}:{key}")  # type: ignore[return-value]

        body = self._call("read a conversation", read)
        try:
            return body, None if body is None else load_state(body)
        except ValueError as error:
            advice = "Give the store a `redis.prefix` of its own, or remove that value."
            detail = f"the value is not one ({error})"
            raise BrainRedisError(self.place, "read a conversation", detail, advice) from None

    def replace(self, key: ChatKey, body: bytes | None, *, expected: bytes | None) -> bool:
        """Replace the expected value, for the time to live, or delete it; return False when another one is there."""
        values = (expected or b"", body or b"", max(int(self._ttl * 1000), 1))
        return self._call(
            "keep a conversation",
            lambda: bool(self._client.eval(_REPLACE, 1, f"{self._prefix}:{key}", *values)),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        wait = self._backoff.left
        if self._last is not None and wait:
            detail = f"it failed and is asked again in {wait:.0f} s ({self._last.detail})"
            raise BrainRedisError(self.place, operation, detail, self._last.advice)
        try:
            result = action()
        except self._redis.RedisError as error:
            refusals = (self._redis.exceptions.AuthenticationError, self._redis.exceptions.NoPermissionError)
            advice = "Check `redis.password` and `redis.url` in the store's `config`."
            self._last = BrainRedisError(
                self.place, operation, str(error) or type(error).__name__, advice if isinstance(error, refusals) else ""
            )
            self._backoff.failed()
            # Without its cause, whose frames hold the password.
            raise self._last from None
        self._last = None
        self._backoff.worked()
        return result


@dataclass(slots=True, kw_only=True)
class _ReadState:
    """Contents of both places when a state was read, for compare-and-set."""

    state: BrainState
    local: bytes | None
    remote: bytes | None = None
    waiting: bool
    failure: BrainRedisError | None = None


Change = Callable[[BrainState], BrainState]


class ConversationStates:
    """One state for each conversation, changed by compare-and-set; safe to use from several threads and processes."""

    def __init__(self, store: str, table: Callable[[], StateTable], redis: RedisStates | None) -> None:
        """Prepare; `table` is called for every operation."""
        self._store, self._table, self.redis = store, table, redis
        self._lock = threading.Lock()
        self._may_wait = True
        """Whether a state may be waiting for Redis."""
        self._degraded = False

    def load(self, key: ChatKey) -> BrainState:
        """Return the state of a conversation, empty where there is none; Redis may be down."""
        seen = self._read(key)
        if seen.remote is not None and seen.remote != seen.local:
            # What others wrote to Redis is kept here too, as it expires there.
            return self.update(key, lambda state: state)[0]
        self._report(seen.failure)
        return seen.state

    def update(self, key: ChatKey, change: Change) -> tuple[BrainState, BrainRedisError | None]:
        """Change a state atomically, and return it with why Redis lacks it; an unchanged state is not written.

        `change` returns the new state for the old one, and is called again after a concurrent change.

        Raises:
            CollectionBusyError: concurrent changes prevented it.
        """
        new, failure = self._updated(key, change)
        if self._may_wait and failure is None:
            self.flush()
        return new, failure

    def _updated(self, key: ChatKey, change: Change) -> tuple[BrainState, BrainRedisError | None]:
        with self._lock:
            for _ in range(_TRIES):
                seen = self._read(key)
                new = change(seen.state)
                if new == seen.state and self._is_kept(seen):
                    break
                if new != seen.state:
                    new = replace(new, version=seen.state.version + 1)
                if self._write(key, new, seen):
                    break
            else:
                raise self._busy()
        self._report(seen.failure)
        return new, seen.failure

    def _busy(self) -> CollectionBusyError:
        message = f"a conversation was changed by others {_TRIES} times in a row."
        return CollectionBusyError(f"memory store {self._store!r}", message)

    def _read(self, key: ChatKey) -> _ReadState:
        found = self._table().get([(STATE, str(key)), (WAITING, str(key))])
        local = found.get((STATE, str(key)))
        state = BrainState() if local is None else load_state(local)
        seen = _ReadState(state=state, local=local, waiting=(WAITING, str(key)) in found)
        if self.redis is not None:
            try:
                seen.remote, shared = self.redis.get(key)
            except BrainRedisError as error:
                seen.failure = error
            else:
                seen.state = state if shared is None else merge(state, shared)
        return seen

    def _is_kept(self, seen: _ReadState) -> bool:
        """Whether every place that answers has the state; one that expired in Redis waits for its next change."""
        body = dump_state(seen.state)
        is_late = seen.failure is None and (seen.waiting or seen.remote not in (None, body))
        return not is_late and (body == seen.local or (seen.local is None and seen.state == BrainState()))

    def _write(self, key: ChatKey, new: BrainState, seen: _ReadState) -> bool:
        """Write a state; return False when another process was faster. A failure of Redis is added to `seen`."""
        body, shared, local, is_taken = dump_state(new), seen.remote, seen.local, False
        if self.redis is not None and seen.failure is None and body != shared:
            try:
                if not self.redis.replace(key, body, expected=shared):
                    return False
                shared, is_taken = body, True
            except BrainRedisError as error:
                seen.failure = error
        row, mark = (STATE, str(key)), (WAITING, str(key))
        for _ in range(_TRIES):
            waits = self.redis is not None and body != shared
            self._may_wait = self._may_wait or waits
            values: dict[StateKey, bytes | None] = {row: body, mark: b"" if waits else None}
            if self._table().write(values, expected={row: local}):
                return True
            if not is_taken:
                return False
            # Redis has the change, so that it is not made again: another process has written here meanwhile.
            local = self._table().get([row]).get(row)
            new = new if local is None else merge(load_state(local), new)
            body = dump_state(new)
        raise self._busy()

    def flush(self) -> None:
        """Write waiting states to Redis, if it answers again."""
        if self.redis is None or not self._may_wait or self.redis.resting:
            return
        # Before looking: a write that has to wait meanwhile says so again.
        self._may_wait = False
        try:
            for name in self._table().names(WAITING):
                _, failure = self._updated(ChatKey.parse(name), lambda state: state)
                self._may_wait = self._may_wait or failure is not None
        except CollectionError as error:
            self._may_wait = True
            _LOG.warning("memory store %r: conversations still wait for Redis: %s", self._store, error)

    def is_waiting(self, key: ChatKey) -> bool:
        """Whether Redis lacks some of a conversation."""
        return (WAITING, str(key)) in self._table().get([(WAITING, str(key))])

    def known(self) -> list[ChatKey]:
        """Return the conversations that have a state here."""
        return [ChatKey.parse(name) for name in self._table().names(STATE)]

    def discard_empty(self) -> None:
        """Remove the states of conversations of which nothing is left, whose keys name their users.

        Raises:
            BrainRedisError: Redis cannot do its part.
        """
        for key in self.known():
            with self._lock:
                seen = self._read(key)
                if seen.failure is not None:
                    raise seen.failure
                if not seen.state.is_empty:
                    continue
                # One that another process has changed meanwhile is not empty.
                if self.redis is None or seen.remote is None or self.redis.replace(key, None, expected=seen.remote):
                    row, mark = (STATE, str(key)), (WAITING, str(key))
                    self._table().write({row: None, mark: None}, expected={row: seen.local})

    def _report(self, failure: BrainRedisError | None) -> None:
        """Log when the failures of Redis begin and end."""
        if failure is not None and not self._degraded:
            _LOG.warning("memory store %r: %s", self._store, failure)
        elif failure is None and self._degraded:
            _LOG.info("memory store %r shares its conversations in Redis again", self._store)
        self._degraded = failure is not None
