"""The interface to mem0, wherever it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Final, TypeVar
from uuid import UUID

from pydantic import JsonValue

from devmem import Scope
from devmem.errors import Mem0Error
from devmem.text import Backoff
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.items import Record

_LONGEST_ID: Final = 120
PAGE: Final = 100
"""Number of memories on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityIds:
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


def find_ids(config: Mem0Config, scope: Scope, role: str, *, operation: str) -> EntityIds:
    """Return the ids whose memories are meant: those of the configuration, else of the scope, else of the role.

    A role that is a short name is taken unchanged, a whole prompt is known by its hash.

    Raises:
        Mem0Error: there is no id at all; mem0 would take that for everybody.
    """
    agent = config.agent_id or scope.agent
    name = role.strip()
    if agent is None and name and config.user_id is None and config.run_id is None:
        # The role joins ids from the scope too, because a search without a scope has nothing but the role to go by.
        is_name = len(name) <= _LONGEST_ID and not any(char.isspace() for char in name)
        agent = name if is_name else f"role-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    ids = EntityIds(user_id=config.user_id or scope.user, agent_id=agent, run_id=config.run_id)
    if not ids.given():
        raise Mem0Error("scope", operation, "neither an id nor a role says whose memories are meant")
    return ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A text to remember."""

    key: str
    """Marks the memories that are made of it, so that a repeated write can be told from a new one."""
    text: str
    ids: EntityIds
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


def every_record(fetch: Callable[[int], Page]) -> Iterator[Record]:
    """Return the memories of every page, each of which `fetch` returns by its number (from 1).

    Raises:
        Mem0Error: the pages do not end, as of a proxy that answers each with the last one.
    """
    seen: set[str] = set()
    for number in count(1):
        page = fetch(number)
        ids = {record.id for record in page.records}
        if page.more and ids <= seen:
            detail = f"page {number} repeats those before it, and names another one"
            raise Mem0Error("answer", "list memories", detail)
        yield from page.records
        seen |= ids
        if not page.more:
            return


T = TypeVar("T")

_FIRST_WAIT: Final = 0.5
_BUDGET: Final = 30.0
"""Seconds after the start of a call from which on no request of it is repeated."""
_LONGEST_WAIT: Final = 20.0
"""A longer `Retry-After` is not waited for: the call fails, and the next ones do until then."""
_OF_REQUEST: Final = ("setup", "scope", "rejected")
"""Kinds of errors that say nothing about the service."""
_PASSING: Final = ("rate limit", "connection", "server", "model", "answer")
"""Kinds of errors after which the same request may work in a moment."""


class Retrier:
    """Repeats requests that may work in a moment, and refuses them while the service is down (a circuit breaker).

    Safe to use from several threads.
    """

    def __init__(self, retries: int, *, clock: Callable[[], float], sleep: Callable[[float], None]) -> None:
        """Start with a closed circuit; `clock` is monotonic, in seconds."""
        self._retries, self._clock, self._sleep = retries, clock, sleep
        # Three failed requests in a row open the circuit.
        self._backoff = Backoff(first=30.0, longest=300.0, failures=3, clock=clock)
        self._last = ""

    @property
    def resting(self) -> bool:
        """Whether requests are refused now."""
        return self._backoff.left > 0

    def call(self, operation: str, action: Callable[[], T]) -> T:
        """Perform the action, again if that may help.

        Raises:
            Mem0Error: what the last attempt raised; `unavailable` where the circuit is open, and nothing was sent.
        """
        left = self._backoff.left
        # After a pause one request tries the service out; the others are refused until it has answered.
        if left or not self._backoff.admits():
            wait = left or self._backoff.left
            detail = f"it failed repeatedly; the next request is sent in {wait:.0f} s. {self._last}"
            raise Mem0Error("unavailable", operation, detail)
        attempt, started = 0, self._clock()
        while True:
            try:
                result = action()
            except Mem0Error as error:
                if error.kind in _OF_REQUEST:
                    self._backoff.worked()
                    raise
                self._last = f"The last failure: {error.detail}"
                wait = min(_FIRST_WAIT * 2.0**attempt, _LONGEST_WAIT)
                wait = wait if error.retry_after is None else error.retry_after
                self._backoff.failed(wait if wait > _LONGEST_WAIT else 0.0)
                is_late = self._clock() - started + wait > _BUDGET
                if self.resting or is_late or error.kind not in _PASSING or attempt >= self._retries:
                    raise
                self._sleep(wait)
                attempt += 1
            else:
                self._backoff.worked()
                return result


def is_mem0_id(item_id: str) -> bool:
    """Whether an id has the form of mem0's: a UUID with its dashes."""
    try:
        return str(UUID(item_id)) == item_id.lower()
    except ValueError:
        return False
