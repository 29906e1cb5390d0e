"""One attached store, used item by item within the scope of a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from numbers import Real
from typing import Final, Literal, TypeAlias

from devmem import telemetry
from devmem.config.agent import Attachment
from devmem.errors import AccessError, ScopeError
from devmem.model.caller import Caller, Stage, acting_as
from devmem.model.filters import Filter
from devmem.model.items import LEAST_TRUST, AnyUser, MemoryItem, Scope
from devmem.model.results import Hit, MemoryWritePayload
from devmem.model.twins import as_async
from devmem.stores.items import Expiry, store_items
from devmem.stores.memory import MemoryBase, MemoryQuery, observed

User: TypeAlias = str | AnyUser | None
"""A user's id; None means unscoped, `devmem.ANY` everybody."""


def visible_to(user: User, where: Filter | None = None) -> Filter:
    """Return the filter of what a user may see: the user's items and unscoped ones.

    Without a user only unscoped items are visible, unless `where` names the user itself.

    Raises:
        ValueError: the user is empty text, as an unset variable gives.
    """
    where = where or Filter()
    if isinstance(user, str):
        if not user.strip():
            raise ValueError("`user` is empty; leave it out where there is none")
        return replace(where, scope=replace(where.scope, user=user), include_unscoped=True)
    if user is None and where.scope.user is None:
        return replace(where, unbound=tuple({*where.unbound, "user"}))
    return where


_LOG: Final = logging.getLogger(__name__)

OperationKind: TypeAlias = Literal["retrieve", "update", "search", "get", "recent", "add", "delete"]
"""`retrieve` and `update` are a manager's, at a stage; the others are calls of an `AttachmentHandle`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation:
    """One call of a store: a search, a write, a look-up or a deletion."""

    kind: OperationKind
    store: str
    stage: Stage | None
    """Stage of the node's execution; None for a call of an `AttachmentHandle`."""
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    """Duration."""
    items: int = 0
    """Number of items found, stored or deleted."""
    attachments: int = 0
    """Number of images, files and other blocks that came with them."""
    error: Exception | None = None
    """The store's failure; None when it did its part."""

    def __str__(self) -> str:
        done = f"failed: {self.error}" if self.error is not None else f"{self.items} items"
        more = f", {self.attachments} attachments" if self.attachments else ""
        at = f" at {self.stage.value}" if self.stage is not None else ""
        return f"{self.kind} {self.store!r}{at}: {done}{more} in {self.seconds * 1000:.1f} ms"


OperationHook: TypeAlias = Callable[[MemoryOperation], None]
"""Called after each operation, in the thread that did it."""


@dataclass(slots=True)
class OperationCounts:
    """Outcome of an operation, to be filled in while it is timed."""

    items: int = 0
    attachments: int = 0
    failure: Exception | None = None
    """A failure that the store dealt with itself, so that nothing is raised."""


_OBSERVED: Final[Mapping[OperationKind, telemetry.MemoryOperationName]] = {
    "update": "create_memory",
    "add": "upsert_memory",
    "delete": "delete_memory",
}
"""Operations of which OpenTelemetry hears here; a search is observed by the store itself."""


@contextmanager
def timed(
    kind: OperationKind,
    name: str,
    stage: Stage | None,
    *,
    store: MemoryBase,
    clock: Callable[[], float],
    report: OperationHook,
) -> Iterator[OperationCounts]:
    """Time an operation on the store of a name and report it when it is over, also when it raises an exception."""
    counts, started_at, begin = OperationCounts(), clock(), time.perf_counter()
    operation = observed(store, _OBSERVED[kind]) if kind in _OBSERVED else telemetry.UNOBSERVED
    try:
        with operation:
            yield counts
            operation.records(counts.items, tuple)
            operation.end(counts.failure)
    except Exception as error:
        counts.failure = error
        raise
    finally:
        report(
            MemoryOperation(
                kind=kind,
                store=name,
                stage=stage,
                started_at=started_at,
                seconds=time.perf_counter() - begin,
                items=counts.items,
                attachments=counts.attachments,
                error=counts.failure,
            )
        )


def log_operation(operation: MemoryOperation) -> None:
    """Log an operation at the level `INFO`, with its fields as `extra`; failures are logged where they are caught."""
    fields = ("kind", "store", "stage", "seconds", "items", "attachments")
    _LOG.info("%s", operation, extra={f"memory_{name}": getattr(operation, name) for name in fields})


def count_attachments(parts: Sequence[MemoryItem | MemoryWritePayload]) -> int:
    """Return the number of blocks in the snapshots of items, or of payloads."""
    snapshots = (each for part in parts for each in (part.input_snapshot, part.output_snapshot))
    return sum(len(each.blocks) for each in snapshots if each is not None)


class AttachmentHandle:
    """A store as one node may use it.

    It reads items of its user and its agent, and unscoped ones, that are trusted as the attachment demands. It writes
    and deletes items of its user and its agent alone; without a user, unscoped ones.
    Each call is reported to the manager's `on_operation`, and has an async twin: `asearch`, `aget`, ...
    """

    def __init__(
        self,
        attachment: Attachment,
        store: MemoryBase,
        scope: Scope,
        *,
        clock: Callable[[], float],
        one_run: bool,
        caller: Caller,
        on_operation: OperationHook,
    ) -> None:
        """Make the handle.

        Args:
            attachment: what the node may do.
            store: the store, loaded.
            scope: whom the handle is for.
            clock: time in seconds since the epoch.
            one_run: whether it reaches what has the scope's run alone, if that names one.
            caller: the node that has the handle.
            on_operation: is called after each call.

        Raises:
            ValueError: the scope's user is empty text.
        """
        self._attachment, self._store, self._clock = attachment, store, clock
        self._scope, self._on_operation = scope, on_operation
        self._caller = Caller.of(scope).completed_by(caller)
        run = scope.run if one_run else None
        self._own = Filter(
            scope=Scope(user=scope.user, agent=scope.agent, run=run), unbound=() if scope.user else ("user",)
        )
        self._run = run
        least = max(attachment.min_trust, LEAST_TRUST)
        within = Filter(scope=Scope(agent=scope.agent, run=run), include_unscoped=True, min_trust=least)
        self._reach = visible_to(scope.user, within) & (attachment.where or Filter())

    def search(self, query: str, limit: int | None = None, *, asked_at: datetime | float | None = None) -> list[Hit]:
        """Return what answers a query, best first.

        Args:
            query: a question or words.
            limit: maximum number of hits; None is the attachment's `top_k`.
            asked_at: when it is asked, with the asker's zone, from which "last week" counts; None is now.

        Raises:
            AccessError: the attachment does not read.
        """
        self._require("read")
        asked = MemoryQuery(
            text=query,
            limit=self._attachment.top_k if limit is None else limit,
            similarity_threshold=self._attachment.similarity_threshold,
            min_relevance=self._attachment.min_relevance,
            where=self._reach,
            caller=self._caller,
            view=self._attachment.view,
            asked_at=asked_at,
        )
        with self._timed("search") as counts:
            report = self._store.search(asked)
            hits = [hit for hit in checked_hits(report.hits) if self._sees(hit.item)]
            counts.items, counts.attachments = len(hits), count_attachments([hit.item for hit in hits])
        return hits

    def get(self, *ids: str) -> list[MemoryItem]:
        """Return the items within reach that have one of the ids.

        Raises:
            AccessError: the attachment does not read.
        """
        return self._read("get", lambda: self._store.get(ids))

    def recent(self, limit: int = 10) -> list[MemoryItem]:
        """Return the items within reach that were stored last, newest first.

        Raises:
            AccessError: the attachment does not read.
        """
        return self._read("recent", lambda: self._store.recent(limit, self._reach))

    def _read(self, kind: OperationKind, read: Callable[[], Sequence[MemoryItem]]) -> list[MemoryItem]:
        self._require("read")
        with self._timed(kind) as counts:
            found = [item for item in read() if self._sees(item)]
            counts.items, counts.attachments = len(found), count_attachments(found)
        return found

    def add(self, *items: MemoryItem) -> list[str]:
        """Store items and return their ids; what an item's scope leaves open is filled in from the handle's.

        An item without an expiry takes that of the attachment's `ttl`.

        Raises:
            AccessError: the attachment does not write.
            ScopeError: an item belongs to somebody else, or its id is taken outside of the scope.
            NotStoredError: the store does not take some of them.
        """
        self._require("write")
        owned = [replace(item, scope=self._settled(item.scope)) for item in items]
        if self._attachment.ttl is not None:
            owned = Expiry(ttl=self._attachment.ttl).stamped(owned, self._clock(), self._store.get)
        with self._timed("add") as counts:
            for taken in self._store.get([item.id for item in owned]):
                if not self._owns(taken):
                    raise ScopeError(f"the id {taken.id!r} is taken in another scope")
            with acting_as(self._scope.agent, run=self._scope.run):
                ids = store_items(self._store, owned)
            counts.items, counts.attachments = len(ids), count_attachments(owned)
        return ids

    def delete(self, *ids: str) -> int:
        """Delete the items of these ids that the scope owns, and return their number.

        Raises:
            AccessError: the attachment does not write.
        """
        self._require("write")
        with self._timed("delete") as counts:
            owned = [item.id for item in self._store.get(ids) if self._owns(item)]
            with acting_as(self._scope.agent, run=self._scope.run):
                counts.items = self._store.delete(ids=owned, where=self._own) if owned else 0
        return counts.items

    def _timed(self, kind: OperationKind) -> AbstractContextManager[OperationCounts]:
        name = self._attachment.name
        return timed(kind, name, None, store=self._store, clock=self._clock, report=self._on_operation)

    def _require(self, access: Literal["read", "write"]) -> None:
        if not (self._attachment.read if access == "read" else self._attachment.write):
            raise AccessError(self._attachment.name, access)

    def _sees(self, item: MemoryItem) -> bool:
        return self._run in (None, item.scope.run) and self._reach.admits(item, self._clock())

    def _owns(self, item: MemoryItem) -> bool:
        bound = any(getattr(item.scope, part) is not None for part in self._own.unbound)
        return not bound and self._own.scope.admits(item.scope)

    def _settled(self, scope: Scope) -> Scope:
        """Return the scope of an item to add."""
        if self._scope.user is None and scope.user is not None:
            raise ScopeError(f"this attachment writes unscoped items; an item is of user {scope.user!r}")
        parts: dict[str, str | None] = {}
        for name in (part.name for part in fields(Scope)):
            own, asked = getattr(self._scope, name), getattr(scope, name)
            if own is not None and asked not in (None, own):
                raise ScopeError(f"this attachment writes for {name} {own!r}; an item is bound to {asked!r}")
            parts[name] = asked if own is None else own
        return Scope(**parts)

    asearch = as_async(search)
    aget = as_async(get)
    arecent = as_async(recent)
    aadd = as_async(add)
    adelete = as_async(delete)


def checked_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits if they can be merged and shown.

    Raises:
        TypeError: one is not a hit.
    """
    for hit in hits:
        item: object = hit.item
        score: object = hit.score
        if not isinstance(item, MemoryItem) or not isinstance(score, Real):
            raise TypeError(f"a hit needs a MemoryItem, and a number as its score: {hit!r}")
    return [*hits]
