"""The interface to mem0, wherever it runs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Protocol, TypeAlias, TypeVar
from uuid import UUID

from pydantic import JsonValue

from devmem import Filter, Scope
from devmem.text import Backoff
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.errors import (
    Mem0AnswerError,
    Mem0Error,
    Mem0RateLimitError,
    Mem0ScopeError,
    Mem0UnavailableError,
)
from devmem_stores.mem0.items import Record

Filters: TypeAlias = dict[str, JsonValue]

_LONGEST_ID: Final = 120
PAGE: Final = 100
"""Number of memories on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ids:
    """Who memories belong to, in mem0's words; None is not restricted."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def given(self) -> dict[str, str]:
        """Return the ids that are set."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def alternatives(self) -> list[dict[str, str]]:
        """Return what matches: user and agent are searched side by side, each within the run."""
        run = {"run_id": self.run_id} if self.run_id is not None else {}
        owners = [(name, value) for name, value in self.given().items() if name != "run_id"]
        return [{name: value, **run} for name, value in owners] or ([run] if run else [])


def find_ids(config: Mem0Config, scope: Scope, role: str, *, operation: str) -> Ids:
    """Return the ids whose memories are meant: those of the configuration, else of the scope, else of the role.

    Raises:
        Mem0ScopeError: there is no id at all; mem0 would take that for everybody.
    """
    ids = Ids(
        user_id=config.user_id or scope.user,
        agent_id=config.agent_id or scope.agent,
        run_id=config.run_id,
    )
    if config.user_id is None and config.agent_id is None and config.run_id is None and role.strip():
        # The role joins ids from the scope too, because a search without a scope has nothing but the role to go by.
        ids = Ids(user_id=ids.user_id, agent_id=ids.agent_id or role_id(role))
    if not ids.given():
        raise Mem0ScopeError(operation, "neither an id nor a role says whose memories are meant")
    return ids


def role_id(role: str) -> str:
    """Name an agent by its role: a short name is taken as it is, a whole prompt is known by its hash."""
    name = role.strip()
    if len(name) <= _LONGEST_ID and not any(char.isspace() for char in name):
        return name
    return f"role-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def platform_filters(ids: Ids, metadata: Mapping[str, str] | None = None) -> Filters:
    """Write the filter as the platform takes it: one id, `OR` of user and agent, `AND` with anything more."""
    conditions: list[JsonValue] = [{name: value} for name, value in ids.given().items() if name != "run_id"]
    if len(conditions) > 1:
        conditions = [{"OR": conditions}]
    if ids.run_id is not None:
        conditions.insert(0, {"run_id": ids.run_id})
    for key, value in (metadata or {}).items():
        conditions.append({"metadata": {key: value}})
    only = conditions[0] if len(conditions) == 1 else None
    return only if isinstance(only, dict) else {"AND": conditions}


def own_filter(where: Filter, config: Mem0Config) -> Filter:
    """Return the filter without the unbound parts that the configuration binds: all of the store is that user's."""
    bound = {"user": config.user_id, "agent": config.agent_id, "run": config.run_id}
    return replace(where, unbound=tuple(part for part in where.unbound if bound.get(part) is None))


def restricts_more(where: Filter, ids: Ids) -> bool:
    """Whether a filter asks for more than what mem0 finds by the ids."""
    if where.everything():
        return False
    by_user = Filter(scope=Scope(user=ids.user_id), include_unscoped=where.include_unscoped)
    return where != by_user or ids.agent_id is not None or ids.run_id is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A text to remember."""

    key: str
    """Marks the memories that are made of it, so that a repeated write can be told from a new one."""
    text: str
    ids: Ids
    infer: bool
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    timestamp: int | None = None
    """When it happened: seconds since the epoch; the platform takes it for the time of creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of memories."""

    records: tuple[Record, ...]
    total: int
    """Number of memories on all pages."""
    more: bool


class Backend(Protocol):
    """mem0, hosted or in this process. Every method raises `Mem0Error`."""

    @property
    def location(self) -> str:
        """Location of the memories."""
        ...

    def search(self, text: str, ids: Ids, top_k: int, threshold: float | None) -> list[Record]:
        """Return the best memories, best first; no threshold means mem0's own."""
        ...

    def add(self, write: Write) -> str | None:
        """Remember a text; return the id of the first memory, None when mem0 does not say."""
        ...

    def page(self, ids: Ids, number: int, size: int, metadata: Mapping[str, str] | None = None) -> Page:
        """Return a page (from 1) of the memories of these ids, those with this metadata only."""
        ...

    def get(self, memory_id: str) -> Record | None:
        """Return one memory by mem0's id (a UUID, which can stand in a path); None when there is none."""
        ...

    def delete(self, memory_id: str) -> bool:
        """Delete one memory by mem0's id; false when there was none."""
        ...

    def delete_all(self, ids: Mapping[str, str]) -> None:
        """Delete every memory that has all of these ids (at least one)."""
        ...

    def close(self) -> None:
        """Release connections and files; closing twice is allowed."""
        ...


_LISTING: Final = "list memories"


def every_record(fetch: Callable[[int], Page]) -> Iterator[Record]:
    """Return the memories of every page, each of which `fetch` returns by its number (from 1).

    Raises:
        Mem0AnswerError: the pages do not end, as of a proxy that answers each with the last one.
    """
    seen: set[str] = set()
    number, more = 1, True
    while more:
        page = fetch(number)
        ids = {record.id for record in page.records}
        if page.more and ids <= seen:
            raise Mem0AnswerError(_LISTING, f"page {number} repeats those before it, and names another one")
        yield from page.records
        seen |= ids
        number, more = number + 1, page.more


T = TypeVar("T")

_FIRST_WAIT: Final = 0.5


_BUDGET: Final = 30.0
"""Seconds after the start of a call from which on no request of it is repeated."""
_LONGEST_WAIT: Final = 20.0
"""A longer `Retry-After` is not waited for: the call fails, and the next ones do until then."""
_FAILURES: Final = 3
"""Number of failed requests in a row that open the circuit breaker."""
_FIRST_PAUSE: Final = 30.0
_LONGEST_PAUSE: Final = 300.0
"""A pause doubles each time that the request after it fails too."""


class Retrier:
    """Repeats requests that may work in a moment, and refuses them while the service is down (a circuit breaker).

    Safe to use from several threads.
    """

    def __init__(self, retries: int, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Start with a closed circuit; `clock` is monotonic, in seconds."""
        self._retries, self._clock, self._sleep = retries, clock, sleep
        self._backoff = Backoff(first=_FIRST_PAUSE, longest=_LONGEST_PAUSE, failures=_FAILURES, clock=clock)
        self._lock = threading.Lock()
        self._last: Mem0Error | None = None

    @property
    def resting(self) -> bool:
        """Whether requests are refused now."""
        return self._backoff.left > 0

    def call(self, operation: str, action: Callable[[], T]) -> T:
        """Perform the action, again if that may help.

        Raises:
            Mem0UnavailableError: the circuit is open; nothing was sent.
            Mem0Error: what the last attempt raised.
        """
        left = self._backoff.left
        # After a pause one request tries the service out; the others are refused until it has answered.
        if left or not self._backoff.admits():
            raise Mem0UnavailableError(operation, wait=left or self._backoff.left, cause=self._last)
        attempts, started = 0, self._clock()
        while True:
            try:
                result = action()
            except Mem0Error as error:
                wait = self._wait_after(error, attempts)
                if wait is None or self._clock() - started + wait > _BUDGET:
                    raise
                attempts += 1
                self._sleep(wait)
            else:
                self._worked()
                return result

    def _wait_after(self, error: Mem0Error, attempts: int) -> float | None:
        """Record a failure; return the seconds to wait before another attempt, None when there is to be none."""
        if not error.ill:
            self._worked()
            return None
        retry_after = error.retry_after if isinstance(error, Mem0RateLimitError) else None
        self._last = error
        too_long = retry_after is not None and retry_after > _LONGEST_WAIT
        self._backoff.failed(retry_after if retry_after is not None and too_long else 0.0)
        if self.resting or not error.retryable or attempts >= self._retries:
            return None
        if retry_after is not None:
            return retry_after
        return min(_FIRST_WAIT * 2.0**attempts, _LONGEST_WAIT)

    def _worked(self) -> None:
        self._last = None
        self._backoff.worked()


def is_mem0_id(item_id: str) -> bool:
    """Whether an id has the form of mem0's: a UUID with its dashes."""
    try:
        return str(UUID(item_id)) == item_id.lower()
    except ValueError:
        return False
