"""States of conversations in Redis, which several machines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import urlsplit

from devmem import MissingExtraError
from devmem.text import Backoff
from devmem_stores.brain.config import BrainCacheError, CacheRefusedError, CacheUnavailableError, RedisConfig

if TYPE_CHECKING:
    from redis import Redis


T = TypeVar("T")

_LONGEST_PAUSE: Final = 60.0


class RedisCache:
    """A Redis server; after a failure requests back off. Safe to use from several threads."""

    def __init__(self, config: RedisConfig, *, clock: Callable[[], float]) -> None:
        """Prepare the connections; nothing is sent yet. `clock` is monotonic, in seconds.

        Raises:
            MissingExtraError: the `redis` package is not installed.
        """
        try:
            import redis
        except ImportError as error:
            raise MissingExtraError(feature="`redis` of a brain store", package="redis", extra="redis") from error
        from redis.backoff import NoBackoff
        from redis.exceptions import AuthenticationError, NoPermissionError
        from redis.retry import Retry

        self._config = config
        self._redis = redis
        self._refusals = (AuthenticationError, NoPermissionError)
        password = {"password": config.password.get_secret_value()} if config.password else {}
        # A connection that the server closed is opened again at once; a server that is gone is not waited for.
        self._client: Redis = redis.Redis.from_url(
            config.url.get_secret_value(),
            socket_timeout=config.timeout,
            socket_connect_timeout=config.timeout,
            retry=Retry(NoBackoff(), 1),
            **password,
        )
        parts = urlsplit(config.url.get_secret_value())
        self.place = f"Redis at {parts.hostname or parts.path}" + (f":{parts.port}" if parts.port else "")
        self._backoff = Backoff(first=config.retry_after, longest=_LONGEST_PAUSE, clock=clock)
        self._last: BrainCacheError | None = None

    @property
    def resting(self) -> bool:
        """Whether requests to Redis back off now."""
        return self._backoff.left > 0

    def get(self, key: str) -> bytes | None:
        """Return the value of a key."""
        return self._call("read a conversation", lambda: cast("bytes | None", self._client.get(key)))

    def put(self, key: str, body: bytes, *, expected: bytes | None) -> bool:
        """Replace the expected value of a key, for the time to live; return False when another one is there."""
        return self._call("keep a conversation", lambda: self._put(key, body, expected))

    def _put(self, key: str, body: bytes, expected: bytes | None) -> bool:
        with self._client.pipeline() as pipe:
            try:
                pipe.watch(key)  # type: ignore[no-untyped-call] # redis has no types for it
                if pipe.get(key) != expected:
                    return False
                pipe.multi()
                pipe.set(key, body, px=max(int(self._config.ttl * 1000), 1))
                pipe.execute()
            except self._redis.WatchError:
                return False
        return True

    def discard(self, key: str, *, expected: bytes) -> bool:
        """Remove a key that has the expected value; return False when it has another one."""
        return self._call("remove a conversation", lambda: self._discard(key, expected))

    def _discard(self, key: str, expected: bytes) -> bool:
        with self._client.pipeline() as pipe:
            try:
                pipe.watch(key)  # type: ignore[no-untyped-call] # redis has no types for it
                if pipe.get(key) != expected:
                    return False
                pipe.multi()
                pipe.delete(key)
                pipe.execute()
            except self._redis.WatchError:
                return False
        return True

    def keys(self, prefix: str) -> list[str]:
        """Return all keys that start with a prefix of plain ASCII."""
        return self._call(
            "list the conversations", lambda: [key.decode() for key in self._client.scan_iter(match=f"{prefix}*")]
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        last, wait = self._last, self._backoff.left
        if last is not None and wait:
            raise type(last)(self.place, operation, f"it failed and is asked again in {wait:.0f} s ({last.detail})")
        try:
            result = action()
        except self._redis.RedisError as error:
            # Without its cause, whose frames hold the password.
            raise self._failed(operation, error) from None
        self._last = None
        self._backoff.worked()
        return result

    def _failed(self, operation: str, error: Exception) -> BrainCacheError:
        kind = CacheRefusedError if isinstance(error, self._refusals) else CacheUnavailableError
        failure = kind(self.place, operation, str(error) or type(error).__name__)
        self._last = failure
        self._backoff.failed()
        return failure
