"""Contradictions without keys: what becomes of a statement that gives a fact of its scope another value.

The relation is that of `Hit.related` (`devmem.text.statements`). It tells which items state the same otherwise, not
which one is true: so both are kept, unless the store is told to let the newer one take the place of the older one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection as Container
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from devmem.config.store import GuardConfig
from devmem.errors import VersionConflictError
from devmem.model.filters import OWNER_PARTS, event_key, exactly, same_owner
from devmem.model.items import (
    KEY,
    LEAST_TRUST,
    MemoryItem,
    SourceKind,
    is_fact,
    is_pinned,
    is_quarantined,
    version_hash,
)
from devmem.model.message_json import holds_message
from devmem.model.results import RelatedStatement, WriteOutcome, WriteStatus
from devmem.models.embedder import PassageEmbeddings
from devmem.search.merging import restated, states_otherwise
from devmem.search.query import SearchQuery, Weights
from devmem.storage.protocol import Collection, PendingRunView, VersionedCollection
from devmem.stores.config import ConflictConfig, OnConflict
from devmem.stores.guarding import quarantined
from devmem.text.analysis import shorten

if TYPE_CHECKING:
    from devmem.stores.collection_memory import CollectionMemory

_LOG: Final = logging.getLogger(__name__)
RESTATED: Final = 1.0
"""Least share of the older text that a newer one has to state again to take its place. On the sets of related
statements (`tools.bench conflicts`) a lower one replaces texts that say more than the newer one does."""
_LOOKED_AT: Final = 32
"""Number of hits among which older statements are looked for."""
_QUERY_LENGTH: Final = 1000
"""Characters of a text that are searched for, as many as are compared."""
_SHOWN: Final = 200
"""Characters of an older statement that an outcome repeats."""
_ATTEMPTS: Final = 20
"""Number of times that a write is planned again because somebody else changed the older statement meanwhile."""
_LOCKS: Final = 64
"""Number of locks that the scopes of one store share."""
Embeddings = Mapping[str, PassageEmbeddings]
Expected = Mapping[str, str | None]


class Write(Protocol):
    """Stores items, all or none of them."""

    def __call__(
        self, items: Sequence[MemoryItem], /, *, embeddings: Embeddings | None, expected: Expected | None
    ) -> list[WriteOutcome]:
        """Return an outcome for each item; see `CollectionMemory.add`."""
        ...


@lru_cache(maxsize=256)
def _locks_at(_store: str, _location: str) -> tuple[threading.Lock, ...]:
    """Return the locks of a place, which several instances of a store share, such as the views of runs."""
    return tuple(threading.Lock() for _ in range(_LOCKS))


@dataclass(slots=True)
class _Plan:
    """Items as they are to be written."""

    expected: dict[str, str | None]
    embeddings: dict[str, PassageEmbeddings]
    items: list[MemoryItem] = field(default_factory=list)
    related: list[tuple[RelatedStatement, ...]] = field(default_factory=list)
    """Older statements that each item contradicts, the latest one first."""
    replaced: set[str] = field(default_factory=set)
    """Ids of the older items whose place is taken."""
    reasons: dict[str, str] = field(default_factory=dict)
    """Reasons of the items that go into quarantine, by id."""

    def put(self, item: MemoryItem, related: tuple[RelatedStatement, ...] = ()) -> None:
        """Take the next item."""
        self.items.append(item)
        self.related.append(related)

    def replace(self, older: MemoryItem, item: MemoryItem, expires_at: float | None) -> MemoryItem:
        """Return an item in the place of an older one, of which this version alone may be replaced."""
        self.replaced.add(older.id)
        self.expected.pop(item.id, None)
        self.expected[older.id] = version_hash(older)
        if item.id in self.embeddings:
            self.embeddings[older.id] = self.embeddings.pop(item.id)
        return replace(item, id=older.id, expires_at=expires_at)


class ConflictResolver:
    """Looks for what a statement contradicts in its scope, and treats it as `on_conflict` of the store says."""

    def __init__(self, config: ConflictConfig, store: CollectionMemory) -> None:
        """Take the options of a store, which has `on_conflict`."""
        self._mode: OnConflict | None = config.on_conflict
        self._store = store
        self._keep = (config.guard or GuardConfig()).keep
        location = store.setup.location(config.memory_path)
        self._locks = (
            tuple(threading.Lock() for _ in range(_LOCKS))
            if location is None
            else _locks_at(store.setup.name, location)
        )

    def write(
        self,
        items: Sequence[MemoryItem],
        statements: Container[str],
        write: Write,
        *,
        embeddings: Embeddings | None = None,
        expected: Expected | None = None,
    ) -> list[WriteOutcome]:
        """Store items and return their outcomes, with the older statements that some of them contradict.

        Threads that write to one scope take turns, so that each sees what the others stated.

        Args:
            items: finished items.
            statements: ids of those that are looked at; an id that was made for one may give way to that of the older
                statement whose place it takes.
            write: stores them.
            embeddings: embeddings that are known, by the items' ids.
            expected: versions that are to be replaced, by the items' ids.

        Raises:
            VersionConflictError: as `write` raises it for what the caller expects.
        """
        left = _ATTEMPTS
        with self._locked(items):
            while True:
                plan = self._plan(items, statements, _Plan(dict(expected or {}), dict(embeddings or {})))
                try:
                    outcomes = write(plan.items, embeddings=plan.embeddings, expected=plan.expected)
                    break
                except VersionConflictError as conflict:
                    # Another process changed the older statement since it was read.
                    left -= 1
                    if not left or conflict.item_id not in plan.replaced:
                        raise
        return [
            self._told(plan, outcome, item, related)
            for outcome, item, related in zip(outcomes, plan.items, plan.related, strict=True)
        ]

    @contextmanager
    def _locked(self, items: Sequence[MemoryItem]) -> Iterator[None]:
        owners = {tuple(getattr(item.scope, part) for part in OWNER_PARTS) for item in items}
        with ExitStack() as held:
            # In one order everywhere, so that no two threads wait for each other.
            for at in sorted({hash(owner) % _LOCKS for owner in owners}):
                held.enter_context(self._locks[at])
            yield

    def _plan(self, items: Sequence[MemoryItem], statements: Container[str], plan: _Plan) -> _Plan:
        collection, now = self._store.collection, self._store.setup.clock()
        looked_at = [item.id for item in items if item.id in statements]
        stored = {item.id for item in collection.get(looked_at) if not (item.expired(now) or is_quarantined(item))}
        for item in items:
            is_new = item.id in statements and item.id not in stored
            if not is_new or not _is_statement(item) or not (found := self._contradicted(collection, item, plan.items)):
                plan.put(item)
                continue
            shares = [restated(older, item) for older in found]
            related = tuple(
                RelatedStatement(item_id=older.id, text=shorten(older.content_summary, _SHOWN), restated=share)
                for older, share in zip(found, shares, strict=True)
            )
            plan.put(self._settled(collection, item, list(zip(found, shares, strict=True)), plan, now), related)
        return plan

    def _contradicted(self, collection: Collection, item: MemoryItem, before: Sequence[MemoryItem]) -> list[MemoryItem]:
        """Return the older items of the same scope that state the same otherwise, the latest one first.

        `before` are the earlier ones of the same call, which count instead of what they replace.
        """
        asked = SearchQuery(
            text=item.content_summary[:_QUERY_LENGTH],
            limit=_LOOKED_AT,
            where=replace(exactly(item.scope), min_trust=LEAST_TRUST),
            weights=Weights(),
        )
        known = {hit.item.id: hit.item for hit in collection.search(asked)}
        known |= {each.id: each for each in before if same_owner(each.scope, item.scope)}
        found = (
            older
            for older in known.values()
            if older.id != item.id
            and not _has_key(older)
            and not is_quarantined(older)
            and _is_before(older, item)
            and states_otherwise(older, item)
        )
        return sorted(found, key=lambda older: (event_key(older), older.created_at), reverse=True)

    def _settled(
        self,
        collection: Collection,
        item: MemoryItem,
        found: Sequence[tuple[MemoryItem, float]],
        plan: _Plan,
        now: float,
    ) -> MemoryItem:
        """Return the item to write, given the statement that it contradicts and the share of it that it restates."""
        if self._mode == "keep":
            return item
        written = {each.id for each in plan.items}
        replaceable = (
            older
            for older, share in found
            if share >= RESTATED
            and older.id not in plan.replaced | written
            and _may_take_its_place(older, item)
            and _is_kept(collection, older)
        )
        older = next(replaceable, None)
        if self._mode == "supersede":
            return item if older is None else plan.replace(older, item, self._expiry_of(item))
        reason = f"contradicts {found[0][0].id}"
        plan.reasons[item.id] = reason
        # Approved, it takes the place of the older statement where `supersede` would have let it.
        approved = item if older is None else replace(item, id=older.id)
        return quarantined(approved, reason, now, self._keep, item.id)

    def _expiry_of(self, item: MemoryItem) -> float | None:
        """Return when an item expires; one that replaces a known version gets the lifetime of a new one."""
        (fresh,) = self._store.stamped([replace(item, id=uuid4().hex)])
        return fresh.expires_at

    def _told(
        self, plan: _Plan, outcome: WriteOutcome, item: MemoryItem, related: tuple[RelatedStatement, ...]
    ) -> WriteOutcome:
        if not related or outcome.status is WriteStatus.SKIPPED:
            return outcome
        reason = plan.reasons.get(item.id)
        if reason is not None and outcome.status in (WriteStatus.STORED, WriteStatus.SUPERSEDED):
            _LOG.warning("memory store %r: item %s is in quarantine: %s", self._store.name, outcome.item_id, reason)
            outcome = replace(outcome, status=WriteStatus.QUARANTINED, reason=f"in quarantine: {reason}", replaced=None)
        return replace(outcome, related=related)


def _is_statement(item: MemoryItem) -> bool:
    """Whether an item may contradict others: it has no key, is not what somebody said in a chat, and is trusted."""
    return not _has_key(item) and not holds_message(item) and not is_quarantined(item)


def _has_key(item: MemoryItem) -> bool:
    """Whether an item is the value of a key, or a fact that was extracted and has one of its own."""
    return KEY in item.metadata or is_fact(item)


def _is_before(stored: MemoryItem, item: MemoryItem) -> bool:
    """Whether a stored item tells of no later time than one that is about to be stored."""
    # Those of no known time count in the order of storing, which threads need not reach in that of their calls.
    return (stored.event_time is None and item.event_time is None) or event_key(stored) <= event_key(item)


def _may_take_its_place(older: MemoryItem, newer: MemoryItem) -> bool:
    """Whether an item may take the place of an older one, beside what their texts say."""
    snapshots = (older.input_snapshot, older.output_snapshot)
    return (
        newer.trust >= older.trust
        and not is_pinned(older)
        and not holds_message(older)
        and not any(snapshot is not None and snapshot.has_multimodal() for snapshot in snapshots)
        and older.provenance.kind is not SourceKind.SUMMARY
        and older.id not in newer.provenance.parents
    )


def _is_kept(collection: Collection, item: MemoryItem) -> bool:
    """Whether a stored item stays as a version when it is replaced, unlike one that the same pending run wrote."""
    if isinstance(collection, PendingRunView):
        return not collection.has_own_version(item.id)
    return isinstance(collection, VersionedCollection)
