"""States in Redis, each under a key of its own that expires."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast
from urllib.parse import urlsplit

from devmem import MissingExtraError
from devmem_stores.brain.config import RedisConfig
from devmem_stores.brain.errors import BrainCacheError, CacheRefusedError, CacheUnavailableError

if TYPE_CHECKING:
    from redis import Redis

T = TypeVar("T")
_LONGEST_PAUSE: Final = 60.0


class RedisCache:
    """A Redis server; one that fails is left in peace for a while. Safe to use from several threads."""

    def __init__(self, config: RedisConfig, *, clock: Callable[[], float]) -> None:
        """Prepare the connections; nothing is sent yet.

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

        self._config, self._clock = config, clock
        self._redis = redis
        self._refusals = (AuthenticationError, NoPermissionError)
        secrets = (config.password, urlsplit(config.url.get_secret_value()).password)
        self._secrets = [s if isinstance(s, str) else s.get_secret_value() for s in secrets if s]
        password = {"password": config.password.get_secret_value()} if config.password else {}
        # A connection that the server closed meanwhile is opened anew at once; a server that is gone is not waited for.
        self._client: Redis = redis.Redis.from_url(
            config.url.get_secret_value(),
            socket_timeout=config.timeout,
            socket_connect_timeout=config.timeout,
            retry=Retry(NoBackoff(), 1),
            **password,
        )
        parts = urlsplit(config.url.get_secret_value())
        self.place = f"Redis at {parts.hostname or parts.path}" + (f":{parts.port}" if parts.port else "")
        self._lock = threading.Lock()
        self._pause = config.retry_after
        self._resume_at = 0.0
        self._last: BrainCacheError | None = None

    @property
    def resting(self) -> bool:
        """Say whether Redis is left in peace now."""
        with self._lock:
            return self._clock() < self._resume_at

    def get(self, key: str) -> bytes | None:
        """Give what lies under a key."""
        return self._call("read a conversation", lambda: cast("bytes | None", self._client.get(key)))

    def put(self, key: str, body: bytes, *, expected: bytes | None) -> bool:
        """Replace what lies under a key if that is what is expected; gives whether it was. It expires after the TTL."""
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

    def keys(self, prefix: str) -> list[str]:
        """Give all keys that start with a prefix of plain ASCII."""
        return self._call(
            "list the conversations", lambda: [key.decode() for key in self._client.scan_iter(match=f"{prefix}*")]
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, operation: str, action: Callable[[], T]) -> T:
        with self._lock:
            if self._last is not None and self._clock() < self._resume_at:
                wait = self._resume_at - self._clock()
                detail = f"it failed and is asked again in {wait:.0f} s ({self._last.detail})"
                raise type(self._last)(self.place, operation, detail)
        try:
            result = action()
        except self._redis.RedisError as error:
            # Without its cause, whose frames hold the password.
            raise self._failed(operation, error) from None
        with self._lock:
            self._pause, self._resume_at, self._last = self._config.retry_after, 0.0, None
        return result

    def _failed(self, operation: str, error: Exception) -> BrainCacheError:
        detail = str(error) or type(error).__name__
        for secret in self._secrets:
            detail = detail.replace(secret, "***")
        kind = CacheRefusedError if isinstance(error, self._refusals) else CacheUnavailableError
        failure = kind(self.place, operation, detail)
        with self._lock:
            self._resume_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._last = failure
        return failure
