"""One attached store, used item by item within the scope of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from numbers import Real
from typing import Literal

from devmem.collections import Filter
from devmem.config import Attachment
from devmem.errors import AccessError, ScopeError
from devmem.manager.operations import OperationCounts, OperationHook, OperationKind, attachments_of_items, timed
from devmem.manager.visibility import visible_to
from devmem.model.acting import acting_as
from devmem.model.caller import Caller
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import Hit
from devmem.recall import with_related
from devmem.stores import MemoryBase, MemoryQuery
from devmem.stores.adding import store_items
from devmem.stores.expiry import Expiry
from devmem.stores.twins import async_twin


class AttachmentHandle:
    """A store as one node may use it.

    What it reads is its user's and its agent's, or bound to nobody, and is trusted as the attachment demands. What it
    writes and deletes is its user's and its agent's alone; without a user that is what is bound to nobody.
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
        within = Filter(scope=Scope(agent=scope.agent, run=run), or_unbound=True, min_trust=attachment.min_trust)
        self._reach = visible_to(scope.user, within)

    def search(self, query: str, limit: int | None = None) -> list[Hit]:
        """Return what answers a query, best first; `limit` is the maximum number, None the attachment's `top_k`.

        Raises:
            AccessError: the attachment does not read.
        """
        self._require("read")
        asked = MemoryQuery(
            text=query,
            top_k=self._attachment.top_k if limit is None else limit,
            similarity_threshold=self._attachment.similarity_threshold,
            min_relevance=self._attachment.min_relevance,
            where=self._reach,
            caller=self._caller,
            view=self._attachment.view,
        )
        with self._timed("search") as counts:
            seen = [hit for hit in checked_hits(self._store.search(asked)) if self._sees(hit.item)]
            hits = list(with_related(seen))
            counts.items, counts.attachments = len(hits), attachments_of_items([hit.item for hit in hits])
        return hits

    def get(self, *ids: str) -> list[MemoryItem]:
        """Return the items within reach that have one of the ids.

        Raises:
            AccessError: the attachment does not read.
        """
        self._require("read")
        return self._read("get", lambda: self._store.get(ids))

    def recent(self, limit: int = 10) -> list[MemoryItem]:
        """Return the items within reach that were stored last, newest first.

        Raises:
            AccessError: the attachment does not read.
        """
        self._require("read")
        return self._read("recent", lambda: self._store.recent(limit, self._reach))

    def _read(self, kind: OperationKind, read: Callable[[], Sequence[MemoryItem]]) -> list[MemoryItem]:
        with self._timed(kind) as counts:
            found = [item for item in read() if self._sees(item)]
            counts.items, counts.attachments = len(found), attachments_of_items(found)
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
            counts.items, counts.attachments = len(ids), attachments_of_items(owned)
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
        return timed(kind, self._attachment.name, None, clock=self._clock, report=self._on_operation)

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
            raise ScopeError(f"this attachment writes what is bound to nobody; an item is bound to user {scope.user!r}")
        parts: dict[str, str | None] = {}
        for name in (part.name for part in fields(Scope)):
            own, asked = getattr(self._scope, name), getattr(scope, name)
            if own is not None and asked not in (None, own):
                raise ScopeError(f"this attachment writes for {name} {own!r}; an item is bound to {asked!r}")
            parts[name] = asked if own is None else own
        return Scope(**parts)

    asearch = async_twin(search)
    aget = async_twin(get)
    arecent = async_twin(recent)
    aadd = async_twin(add)
    adelete = async_twin(delete)


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
