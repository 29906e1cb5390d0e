"""Content that is added again: an equal text of a scope is one item, a history is aligned with what is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from itertools import count
from random import SystemRandom
from time import sleep
from typing import Any, Final, TypeVar
from uuid import uuid4

from pydantic import JsonValue

from devmem import telemetry
from devmem.errors import EmbeddingError, NotStoredError, ScopeError, VersionConflictError
from devmem.memory.contents import (
    NO_VERSION,
    AddOptions,
    Content,
    Draft,
    NamedOptions,
    OutcomeOptions,
    check_one_text,
    drafts_of,
    envelope_of,
    is_turn,
    listed,
)
from devmem.memory.scope import ScopeGuard, check_sources, split_scope
from devmem.model.filters import OWN_FIELDS, OWNER_PARTS, exactly, same_owner, time_of
from devmem.model.items import KEY, MESSAGE_KEY, REPEATS, VECTOR, MemoryItem, Scope, version_hash
from devmem.model.message_json import SPEAKER_KEY
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.model.times import datetime_of
from devmem.models.embedder import PassageEmbeddings
from devmem.models.given_vectors import checked_vector
from devmem.search.query import SearchQuery, Weights
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.items import kept_ids
from devmem.stores.memory import MemoryBase, observed, records_of

T = TypeVar("T")

_ATTEMPTS: Final = 200
"""Number of times that a write is tried again because somebody else was faster: eight writers need more than fifty."""
_LONGEST_PAUSE: Final = 0.2
_RANDOM: Final = SystemRandom()
"""Not the generator of `random`, whose seed is the program's own."""
_IDS_OF_A_TEXT: Final = 4
"""Number of ids that a text may have; the first may be taken, by an item whose text was updated since."""
_COPIES: Final = 64
"""Number of hits among which copies are searched first."""


def remembered(
    store: MemoryBase, guard: ScopeGuard, now: float, content: Content | Iterable[Content], options: OutcomeOptions
) -> list[WriteOutcome]:
    """Store texts and messages; see `Memory.add`, also for what is raised.

    Args:
        store: takes them.
        guard: of the handle that they are given to.
        now: the time in seconds since the epoch.
        content: a text, a message, or several of them.
        options: of the call.
    """
    named: dict[str, Any] = {name: options.pop(name, None) for name in NamedOptions.__annotations__}  # type: ignore[misc]
    check_one_text(content, named)
    history = options.pop("history", False)
    scope, said = split_scope(options, AddOptions)
    within = replace(guard.restricted(scope).scope(), trace=telemetry.trace_id())
    facts = envelope_of(within, now, said)
    drafts = drafts_of(listed(content, named, may_be_blank=bool(facts.metadata)), facts, history=history)
    check_sources(guard, [draft.item for draft in drafts], store.get)
    is_new = named["id"] is None and named["key"] is None
    with observed(store, "create_memory" if is_new else "upsert_memory", record=named["id"]) as operation:
        outcomes = store_drafts(store, drafts)
        operation.records(len(outcomes), lambda: records_of(draft.item for draft in drafts))
    return outcomes


def store_drafts(store: MemoryBase, drafts: Sequence[Draft]) -> list[WriteOutcome]:
    """Store what is new, and return the outcome of each draft's item, in their order.

    Raises:
        NotStoredError: the store does not take some of them.
        CollectionError: they cannot be written.
    """
    named = {draft.item.id for draft in drafts if draft.if_version is not None}

    def write(attempt: int) -> list[WriteOutcome]:
        # Without a model, writing and being refused takes no longer than looking first.
        looks = attempt > 1 or not isinstance(store, CollectionMemory) or store.embedder is not None
        found = _Known(store, drafts, looks)
        return found.outcomes_after(_store(found, found.place()))

    # Where somebody else stored the same text meanwhile, what is said of it now is added to that.
    return repeated(write, lambda conflict: conflict.item_id not in named)


def repeated(
    write: Callable[[int], T], may_repeat: Callable[[VersionConflictError], bool] = lambda _conflict: True
) -> T:
    """Return the result of a write, which is tried again where others changed the same items first.

    Before each further attempt it waits for a random time, up to 0.2 seconds: a number of writers that all try again at
    once can come before one of them any number of times.

    Args:
        write: is called with the number of the attempt, from 1.
        may_repeat: whether the write is tried again after a conflict.

    Raises:
        VersionConflictError: others came first again and again, or it may not be repeated.
    """
    attempt = 1
    while True:
        try:
            return write(attempt)
        except VersionConflictError as conflict:
            if attempt == _ATTEMPTS or not may_repeat(conflict):
                raise
        sleep(_RANDOM.uniform(0, min(_LONGEST_PAUSE, 0.001 * 2**attempt)))
        attempt += 1


def _store(known: _Known, items: Sequence[MemoryItem]) -> dict[str, WriteOutcome]:
    """Store items; return their outcomes by the ids that they were given."""
    if not items:
        return {}
    store = known.store
    given = {item.id: PassageEmbeddings.of(item.embedding) for item in items if item.embedding is not None}
    # Other stores neither compare what they replace nor take vectors.
    if isinstance(store, CollectionMemory):
        check_vectors(store, items)
        outcomes = store.add(items, expected=known.expected, embeddings=given)
    elif given:
        raise EmbeddingError(f"a store of type {store.setup.store_type!r} takes no vectors of its callers")
    else:
        outcomes = store.add(items)
    kept_ids(items, outcomes)
    return {item.id: outcome for item, outcome in zip(items, outcomes, strict=True)}


@dataclass(slots=True)
class _Known:
    """Drafts, and the items that some of them have already."""

    store: MemoryBase
    drafts: Sequence[Draft]
    looks: bool
    """Whether texts are looked for; else all are taken for new, which a conflict refutes."""
    ids: dict[int, str] = field(default_factory=dict)
    """Ids of the items that stay as they are, by the place of their draft."""
    items: dict[str, MemoryItem] = field(default_factory=dict)
    """Items that are written, by their ids."""
    expected: dict[str, str | None] = field(default_factory=dict)
    """Versions that are replaced, None for a new item."""

    def place(self) -> list[MemoryItem]:
        """Find what is known; return the items that are to be written."""
        self._place_named([at for at, draft in enumerate(self.drafts) if draft.replaces])
        self._place_texts([at for at, draft in enumerate(self.drafts) if draft.is_text and not draft.replaces], 0)
        self._place_messages([at for at, draft in enumerate(self.drafts) if not draft.is_text])
        first = {item_id: at for at, item_id in sorted(self.ids.items(), reverse=True)}
        return sorted(self.items.values(), key=lambda item: first[item.id])

    def outcomes_after(self, written: Mapping[str, WriteOutcome]) -> list[WriteOutcome]:
        """Return the outcomes of all drafts, given those of the items that were written."""
        known = [
            WriteOutcome(status=WriteStatus.DUPLICATE, item_id=self.ids[at], reason="the same is stored already")
            for at in range(len(self.drafts))
        ]
        return [written.get(self.ids[at], outcome) for at, outcome in enumerate(known)]

    def _place_named(self, places: Sequence[int]) -> None:
        """Place the items of ids that the caller chose, which replace nothing but what is in the same scope."""
        named = {self.drafts[at].item.id: at for at in places}
        if len(named) < len(places):
            taken = next(at for at in places if named[self.drafts[at].item.id] != at)
            name = self.drafts[taken].item.metadata.get(KEY)
            shown = f"the id {self.drafts[taken].item.id!r}" if name is None else f"the key {name!r}"
            raise ValueError(f"{shown} is given twice in one call")
        for stored in self.store.get(list(named)) if named else []:
            if stored.id in named and stored.scope != self.drafts[named[stored.id]].item.scope:
                raise ScopeError(f"the id {stored.id!r} is taken in another scope")
        for item_id, at in named.items():
            self.ids[at], self.items[item_id] = item_id, self._conditional(self.drafts[at])

    def _conditional(self, draft: Draft) -> MemoryItem:
        """Return the item of a draft, and note the version that it may replace."""
        item, store = draft.item, self.store
        if draft.if_version is None:
            return item
        if not isinstance(store, CollectionMemory):
            kind = store.setup.store_type
            raise NotStoredError([f"a store of type {kind!r} cannot compare versions; leave `if_version` out"])
        self.expected[item.id] = None if draft.if_version == NO_VERSION else draft.if_version
        # What replaces a known version gets the lifetime of a new item.
        return self._with_new_lifetime(item)

    def _with_new_lifetime(self, item: MemoryItem) -> MemoryItem:
        """Return an item that expires when one that was never stored would."""
        if not isinstance(self.store, CollectionMemory):
            return item
        (fresh,) = self.store.stamped([replace(item, id=uuid4().hex)])
        return replace(item, expires_at=fresh.expires_at)

    def _place_texts(self, places: Sequence[int], attempt: int) -> None:
        """Find texts under the ids that they have in their scope; an id that is taken otherwise leads to the next."""
        named = {at: _id_of_text(self.drafts[at].item, attempt) for at in places}
        stored = self._stored(named.values()) if self.looks else {}
        taken: list[int] = []
        for at, item_id in named.items():
            item = replace(self.drafts[at].item, id=item_id)
            found = self.items.get(item_id) or stored.get(item_id)
            if found is None:
                self._put(at, item, None)
            elif not is_same_text(found, item):
                taken.append(at)
            elif (again := restated(found, self._with_new_lifetime(item))) is not None:
                self._put(at, again, stored.get(item_id))
            else:
                self.ids[at] = item_id
        if taken:
            self._place_texts(taken, attempt + 1)

    def _stored(self, ids: Iterable[str]) -> dict[str, MemoryItem]:
        """Return the items of some ids that have not expired."""
        wanted, now = list(dict.fromkeys(ids)), self.store.setup.clock()
        return {item.id: item for item in self.store.get(wanted) if not item.expired(now)} if wanted else {}

    def _put(self, at: int, item: MemoryItem, older: MemoryItem | None) -> None:
        self.ids[at] = item.id
        self.items[item.id] = item
        self.expected[item.id] = None if older is None else version_hash(older)

    def _place_messages(self, places: Sequence[int]) -> None:
        """Find messages under their ids, and those of a history also by their places in the conversation."""
        stored = self._stored(self.drafts[at].item.id for at in places)
        named = ((at, stored.get(self.drafts[at].item.id)) for at in places)
        known = {
            at: item.id
            for at, item in named
            if item is not None and (self.drafts[at].is_turn or self._is_known(at, item))
        }
        if any(self.drafts[at].is_turn and at not in known for at in places):
            known |= self._known_turns([at for at in places if not _is_system(self.drafts[at].item)], stored)
        for at in places:
            self.ids[at] = known.get(at, self.drafts[at].item.id)
            if at not in known:
                self.items[self.ids[at]] = self.drafts[at].item

    def _is_known(self, at: int, stored: MemoryItem) -> bool:
        """Whether a message is stored under its id as it is given; without its own time it has the stored one."""
        form = {MESSAGE_KEY: stored.metadata.get(MESSAGE_KEY)}
        item = self.drafts[at].item
        given = replace(item, metadata={**item.metadata, **form}, event_time=stored.event_time)
        return _said(item) == _said(stored) and version_hash(given) == version_hash(stored)

    def _known_turns(self, places: Sequence[int], stored: Mapping[str, MemoryItem]) -> dict[int, str]:
        """Return the ids of the messages of a history that its conversation has already, by the places of their drafts.

        A message whose id is of its place was handed over with all that stands before it, which is therefore known, if
        it was forgotten since too. What other calls stored behind it is known as far as the history continues with the
        same messages. A history whose beginning was cut off continues the last messages of the conversation: the fewest
        that it can begin with, so that none is lost.
        """
        given = [self.drafts[at] for at in places]
        turns = [draft.item.id for draft in given if draft.is_turn and draft.item.id in stored]
        all_before = len(turns) > 0 and all(draft.item.id in stored for draft in given[: len(turns)])
        # Where all messages before the last known one have their ids, only what was stored behind it may be known too.
        before = self._messages(given[0].item.scope, {*turns[-1:]} if all_before else {*turns}, len(given) - len(turns))
        there = {item.id: number for number, item in enumerate(before)}
        ids: list[str] = []
        end, follows, following = 0, True, 0
        for number, draft in enumerate(given, 1):
            place = there.get(draft.item.id)
            if not draft.is_turn and not (follows and place == following):
                # A host's id says nothing of the messages before it.
                place = None
            elif follows and draft.item.id not in stored and following < len(before):
                # A message that no history named may be the one that is given in its place.
                stored_there = before[following]
                is_same = not is_turn(stored_there) and _said(draft.item) == _said(stored_there)
                place = following if is_same else None
            follows = place is not None
            ids.append(draft.item.id if place is None else before[place].id)
            if place is not None:
                end, following = number, place + 1
        if not end:
            said = [_said(draft.item) for draft in given]
            lengths = range(1, min(len(given), len(before)) + 1)
            tail = [_said(item) for item in before]
            end = next((length for length in lengths if tail[-length:] == said[:length]), 0)
            ids = [item.id for item in before[len(before) - end :]]
        return {at: item_id for at, draft, item_id in zip(places[:end], given, ids, strict=False) if draft.is_turn}

    def _messages(self, scope: Scope, turns: Set[str], wanted: int) -> list[MemoryItem]:
        """Return a conversation's messages but for instructions, oldest first.

        With `turns`, at least those from the first of these items on; otherwise all.
        """
        where, messages = exactly(scope), list[MemoryItem]()
        for limit in (4 * (wanted + 1) * 8**step for step in count()):
            stored = self.store.recent(limit, where)
            messages = [item for item in stored if item.is_message and same_owner(item.scope, scope)]
            if len(stored) < limit or (turns and turns <= {item.id for item in messages}):
                break
        said = [item for item in reversed(messages) if not _is_system(item)]
        # A message that was updated since counts as stored last.
        return sorted(said, key=lambda item: (item.created_at, time_of(item)))


def check_vectors(store: CollectionMemory, items: Iterable[MemoryItem]) -> None:
    """Refuse vectors of the callers that do not fit.

    Raises:
        EmbeddingError: the store has no model.
        ValueError: a vector has another length than those of the model.
    """
    given = [item.embedding for item in items if item.embedding is not None]
    if not given:
        return
    if store.embedder is None:
        raise EmbeddingError(
            f"memory {store.name!r} is searched by words: open it with the model that made the vectors, as "
            "`embedding={'provider': 'given', 'model': NAME}`"
        )
    for vector in given:
        checked_vector("embedding", vector, store.embedder.identity.dimension or store.info().dimension)


def _said(item: MemoryItem) -> tuple[object, ...]:
    """Return what makes a message the same as another: role, speaker and content."""
    form = item.metadata.get(MESSAGE_KEY)
    role = form.get("role") if isinstance(form, Mapping) else None
    return role, item.metadata.get(SPEAKER_KEY), item.content_hash


def _is_system(item: MemoryItem) -> bool:
    return _said(item)[0] == "system"


def is_same_text(one: MemoryItem, other: MemoryItem) -> bool:
    """Whether two items are one text in one scope; messages, and values of keys, stand for themselves."""
    is_plain = not any(item.is_message or KEY in item.metadata for item in (one, other))
    return is_plain and one.content_hash == other.content_hash and same_owner(one.scope, other.scope)


def restated(found: MemoryItem, again: MemoryItem) -> MemoryItem | None:
    """Return an item with a further statement of the same text; None where it says nothing new.

    The item has what the further statement says, what only the one before said, and the more trusted source; of the
    earlier one are kept its time, and the metadata and the other source where they differ.
    """
    is_later = None in (found.event_time, again.event_time) or time_of(again) >= time_of(found)
    earlier, later = (found, again) if is_later else (again, found)
    repeats = found.metadata.get(REPEATS)
    own = {key: value for key, value in earlier.metadata.items() if key != REPEATS}
    metadata = {**own, **{key: value for key, value in later.metadata.items() if key != REPEATS}}
    replaced = {key: value for key, value in own.items() if metadata[key] != value and key != VECTOR}
    statement: dict[str, JsonValue] = {"time": datetime_of(time_of(earlier)).isoformat()}
    if replaced:
        statement["metadata"] = replaced
    trusted, other = (again, found) if again.trust > found.trust else (found, again)
    if other.provenance != trusted.provenance:
        statement["source"] = {"kind": other.provenance.kind.value, "name": other.provenance.name}
    # The same of the same time is the same statement; each one without a time is another.
    is_new = len(statement) > 1 or again.event_time is None or time_of(earlier) != time_of(later)
    statements = [*(repeats if isinstance(repeats, list) else []), *([statement] if is_new else [])]
    if is_new or repeats:
        metadata[REPEATS] = statements
    tells_more = any(each.of(again) not in (None, each.of(found)) for each in OWN_FIELDS)
    never = found.expires_at is None or again.expires_at is None
    expires_at = None if never else max(found.expires_at or 0.0, again.expires_at or 0.0)
    unchanged = (dict(found.metadata), found.trust, found.expires_at)
    if not is_new and not tells_more and (metadata, trusted.trust, expires_at) == unchanged:
        return None
    unsaid = (each.name for each in fields(again) if each.compare and getattr(again, each.name) is None)
    merged: dict[str, Any] = {
        **{name: getattr(found, name) for name in unsaid},
        "metadata": metadata,
        "event_time": earlier.event_time if later.event_time is None else later.event_time,
        "expires_at": expires_at,
        "trust": trusted.trust,
        "provenance": trusted.provenance,
    }
    return replace(again, **merged)


def _id_of_text(item: MemoryItem, attempt: int) -> str:
    """Return the id of a text in its scope; after some attempts a random one."""
    if attempt >= _IDS_OF_A_TEXT:
        return uuid4().hex
    scope = [getattr(item.scope, part) for part in OWNER_PARTS]
    named = json.dumps(["text", attempt, scope, item.content_hash])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def copies_of(store: MemoryBase, item: MemoryItem) -> Iterator[MemoryItem]:
    """Yield the other items with the same text in the same scope, as files of earlier versions and runs have them."""
    if not isinstance(store, CollectionMemory) or not is_same_text(item, item):
        return
    # With weights, a search ranks by these alone and returns hits that say the same; copies come first.
    asked = SearchQuery(text=item.content_summary, limit=_COPIES, where=exactly(item.scope), weights=Weights())
    found = store.collection.search(asked)
    while len(found) == asked.limit and is_same_text(found[-1].item, item):
        asked = replace(asked, limit=4 * asked.limit)
        found = store.collection.search(asked)
    yield from (hit.item for hit in found if is_copy(hit.item, item))


def is_copy(other: MemoryItem, item: MemoryItem) -> bool:
    """Whether another item is a copy of one, as `copies_of` finds them."""
    return other.id != item.id and is_same_text(other, item)
