"""The guard of a store: what is caught of its writes goes into quarantine, where no search finds it."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeAlias

from pydantic import JsonValue

from devmem.config.store import GuardCheckConfig, GuardConfig
from devmem.errors import GuardError
from devmem.model.fields import embedded_hash, field_texts
from devmem.model.filters import ITEM_FIELDS, OWNER_PARTS, Filter, exactly
from devmem.model.items import APPROVED, QUARANTINE, MemoryItem, agent_of, is_quarantined
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.models.embedder import PassageEmbeddings
from devmem.models.write_checks import WriteCheck, open_write_check
from devmem.search.query import SearchQuery, Weights
from devmem.storage.protocol import Collection
from devmem.storage.tombstones import normal_form
from devmem.storage.writing import PreparedItem, Unique
from devmem.stores.memory import StoreSetup

_LOG: Final = logging.getLogger(__name__)
_SCOPES: Final = 4096
"""Number of scopes whose last text is known."""
_RUNS: Final = 4096
_MINUTE: Final = 60.0
_LOOKED_AT: Final = 16
"""Number of hits among which a duplicate is looked for."""
Embeddings: TypeAlias = Mapping[str, PassageEmbeddings]
Expected: TypeAlias = Mapping[str, str | None]

_EMPTY_TALK: Final = frozenset(
    "ok okay k kk yes no yep yeah nope sure fine cool nice great perfect awesome thanks thx ty cheers hi hello hey bye "
    "goodbye lol haha hm hmm done noted understood roger agreed exactly right indeed welcome "
    "好 好的 好吧 嗯 嗯嗯 哦 噢 谢谢 多谢 感谢 收到 明白 明白了 "
    "知道了 了解 是 是的 对 对的 不是 行 可以 没问题 你好 再见 哈哈 没事".split()
) | {"thank you", "thanks a lot", "many thanks", "got it", "good morning", "good night", "no problem", "all right",
     "sounds good", "you're welcome", "never mind", "i see", "see you", "of course", "thank you very much"}  # fmt: skip
_BETWEEN: Final = re.compile(r"[.,!?;:\n。，！？；：、~…]+")

_ADMITTED: ContextVar[frozenset[str]] = ContextVar("admitted", default=frozenset())


@contextmanager
def admitting(*ids: str) -> Iterator[None]:
    """Let the items of some ids pass every guard, as somebody who may decide about them says so."""
    token = _ADMITTED.set(_ADMITTED.get() | set(ids))
    try:
        yield
    finally:
        _ADMITTED.reset(token)


class _RecentWrites:
    """Writes of this process to one store: how many, and the last text of each source and scope. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[str, deque[float]] = {}
        self._runs: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._last: OrderedDict[tuple[object, ...], str] = OrderedDict()

    def within_a_minute(self, writer: str, now: float) -> int:
        """Count a write; return the number of those of the last minute, `now` in seconds."""
        with self._lock:
            times = self._times.setdefault(writer, deque())
            while times and times[0] <= now - _MINUTE:
                times.popleft()
            times.append(now)
            return len(times)

    def within_run(self, writer: str, run: str) -> int:
        """Count a write; return the number of those of the run."""
        with self._lock:
            count = self._runs[writer, run] = self._runs.pop((writer, run), 0) + 1
            if len(self._runs) > _RUNS:
                self._runs.popitem(last=False)
            return count

    def before(self, item: MemoryItem, text: str) -> str:
        """Return the text that the item's source wrote last in its scope, and remember this one in its place."""
        place = (item.provenance.kind, *(getattr(item.scope, part) for part in OWNER_PARTS))
        with self._lock:
            last = self._last.pop(place, "")
            self._last[place] = text[-2 * 1024 :]
            if len(self._last) > _SCOPES:
                self._last.popitem(last=False)
        return last


@lru_cache(maxsize=256)
def _seen_at(_store: str, _location: str) -> _RecentWrites:
    """Return what is known of a place, which several instances of a store share, such as the views of runs."""
    return _RecentWrites()


class WriteGuard:
    """Puts writes into quarantine as a `guard:` block says."""

    def __init__(self, config: GuardConfig, setup: StoreSetup, memory_path: str | None) -> None:
        """Open the checks of a store's block; `memory_path` is where its items live.

        Raises:
            GuardError: a check cannot be opened; names the store.
            MissingExtraError: a package that it needs is not installed.
        """
        self._config, self._name, self._clock = config, setup.name, setup.clock
        location = setup.location(memory_path)
        self._seen = _RecentWrites() if location is None else _seen_at(setup.name, location)
        self._checks: list[tuple[GuardCheckConfig, WriteCheck]] = []
        for each in config.checks:
            try:
                self._checks.append((each, open_write_check(each, setup.base_dir)))
            except GuardError as error:
                raise GuardError(f"memory store {setup.name!r}: guard: {error}") from error

    def screen(
        self,
        items: Sequence[MemoryItem],
        collection: Collection,
        embeddings: Embeddings | None,
        expected: Expected | None,
    ) -> tuple[list[MemoryItem], Embeddings, Expected | None, Mapping[str, str]]:
        """Return items as they may be stored, their embeddings and expected versions, and why some are in quarantine.

        A caught item takes no other one's place: under an id that is taken it gets another one. The reasons are by the
        ids under which the items are kept.
        """
        now, admitted, twins = self._clock(), _ADMITTED.get(), Counter[str]()
        kept: list[MemoryItem] = []
        moved: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for item in items:
            reason = None if item.id in admitted else self._reason(item, collection, now, twins)
            stored = None if reason is None else next(iter(collection.get([item.id])), None)
            taken = stored is not None and not is_quarantined(stored)
            # What was admitted before is changed in its metadata, or stored again.
            if reason is None or (taken and stored is not None and embedded_hash(stored) == embedded_hash(item)):
                if QUARANTINE in item.metadata and not is_quarantined(item):
                    item = replace(item, metadata={k: value for k, value in item.metadata.items() if k != QUARANTINE})
                kept.append(item)
                continue
            if taken:
                name = f"quarantine {item.id} {embedded_hash(item)}"
                moved[item.id] = hashlib.sha256(name.encode()).hexdigest()[:32]
            kept.append(quarantined(item, reason, now, self._config.keep, moved.get(item.id, item.id)))
            reasons[kept[-1].id] = reason
        known = {moved.get(key, key): value for key, value in (embeddings or {}).items()}
        wanted = None if expected is None else {key: value for key, value in expected.items() if key not in moved}
        return kept, known, wanted, reasons

    def add(
        self,
        collection: Collection,
        reasons: Mapping[str, str],
        items: Sequence[PreparedItem],
        *,
        unique: Unique,
        expected: Expected | None,
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store screened items and return their outcomes; a text in quarantine keeps no other one from being stored."""
        outcomes = collection.add(items, unique=unique, expected=expected, absent=absent)
        twins = {
            at: outcome.item_id
            for at, (item, outcome) in enumerate(zip(items, outcomes, strict=True))
            if outcome.status is WriteStatus.DUPLICATE and item.item.id not in reasons
            and outcome.item_id not in (None, item.item.id)
        }  # fmt: skip
        caught = {item.id for item in collection.get([*twins.values()]) if is_quarantined(item)} if twins else ()
        for at, twin in twins.items():
            if twin in caught:
                outcomes[at] = _beside(collection, items[at], twin)
        for at, (item, outcome) in enumerate(zip(items, outcomes, strict=True)):
            reason = reasons.get(item.item.id)
            if reason is not None and outcome.status is not WriteStatus.SKIPPED:
                _LOG.warning("memory store %r: item %s is in quarantine: %s", self._name, outcome.item_id, reason)
                outcomes[at] = replace(
                    outcome, status=WriteStatus.QUARANTINED, reason=f"in quarantine: {reason}", replaced=None
                )
        return outcomes

    def _reason(self, item: MemoryItem, collection: Collection, now: float, twins: Counter[str]) -> str | None:
        """Return why an item is to be kept in quarantine; None where nothing speaks against it."""
        text = _text_of(item)
        before = self._seen.before(item, text)
        if reason := self._of_writer(item, now):
            return reason
        limit = self._config.max_length
        if limit is not None and len(text) > limit:
            return f"it has {len(text):,} characters, more than {limit:,}"
        if self._config.empty_talk and not item.metadata.get("attachments"):
            # Every sentence is a courtesy, or there is no word in it.
            said = (part.strip().casefold() for part in _BETWEEN.split(text))
            if all(part in _EMPTY_TALK or not any(map(str.isalnum, part)) for part in said):
                return "it says nothing"
        found = self._of_duplicate(item, text, collection, twins)
        return found or next(filter(None, self._found(item, text, before)), None)

    def _of_writer(self, item: MemoryItem, now: float) -> str | None:
        config, kind = self._config, item.provenance.kind
        if config.sources is not None and kind not in config.sources:
            return f"sources of the kind {kind.value!r} may not write here"
        if item.trust < config.min_trust:
            return f"its trust {item.trust:g} is less than {config.min_trust:g}"
        writer = agent_of(item) or f"{kind.value} {item.provenance.name}"
        if config.per_minute is not None and self._seen.within_a_minute(writer, now) > config.per_minute:
            return f"{writer} wrote more than {config.per_minute} items within a minute"
        run = item.scope.run or item.scope.trace
        if config.per_run is not None and run and self._seen.within_run(writer, run) > config.per_run:
            return f"{writer} wrote more than {config.per_run} items in the run {run}"
        return None

    def _of_duplicate(self, item: MemoryItem, text: str, collection: Collection, twins: Counter[str]) -> str | None:
        plain = normal_form(text) if self._config.duplicates else ""
        if not plain:
            return None
        name = f"{asdict(item.scope)} {plain}"
        twins[name] += 1
        asked = SearchQuery(text=text[:1000], limit=_LOOKED_AT, where=exactly(item.scope), weights=Weights())
        for hit in collection.search(asked) if twins[name] == 1 else ():
            if hit.item.id != item.id and not is_quarantined(hit.item) and normal_form(_text_of(hit.item)) == plain:
                return f"it says the same as {hit.item.id}"
        return "it says the same as another text of this call" if twins[name] > 1 else None

    def _found(self, item: MemoryItem, text: str, before: str) -> Iterator[str | None]:
        """Yield what each check finds; one that fails catches the item unless it is configured to admit it."""
        text = "\n\n".join([text, *_other_texts(item)])
        for config, check in self._checks:
            if item.provenance.kind not in config.sources:
                continue
            try:
                yield check.reason(text, before, item)
            except Exception as error:  # noqa: BLE001 - a check may be a stranger's code
                told = f"the check {config.type!r} failed with {type(error).__name__}: {error}"
                _LOG.warning("memory store %r: %s", self._name, told)
                yield told if config.on_error == "quarantine" else None


def _beside(collection: Collection, item: PreparedItem, twin: str | None) -> WriteOutcome:
    """Store an item whose text is in quarantine, as `twin`, under the one id that it has beside that."""
    own = hashlib.sha256(f"beside {twin}".encode()).hexdigest()[:32]
    if any(not is_quarantined(there) for there in collection.get([own])):
        return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=own, reason="the same text is stored already")
    (outcome,) = collection.add([replace(item, item=replace(item.item, id=own))], unique=Unique.ID)
    return outcome


def _text_of(item: MemoryItem) -> str:
    return "\n".join(dict.fromkeys([item.full_text(), *(each.text for each in field_texts(item))]))


def _other_texts(item: MemoryItem) -> Iterator[str]:
    """Yield what a model may be shown of an item beside its text: names of its origin and scope, and its metadata."""
    yield from filter(None, (each.of(item) for each in ITEM_FIELDS if each.values is None))
    waiting: list[JsonValue] = [value for key, value in item.metadata.items() if key not in (QUARANTINE, APPROVED)]
    yield from item.metadata
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def quarantined(item: MemoryItem, reason: str, now: float, keep: float, item_id: str) -> MemoryItem:
    """Return the copy of an item that is kept in quarantine under another id until it is deleted.

    Args:
        item: under the id that it has once it is approved.
        reason: why it is in quarantine, for people.
        now: the time in seconds since the epoch.
        keep: seconds after which it is deleted.
        item_id: its id in quarantine.
    """
    earlier = item.metadata.get(QUARANTINE)
    mark: dict[str, JsonValue] = {
        "reason": reason,
        "at": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        "id": item.id,
        "trust": item.trust,
        "expires_at": item.expires_at,
    }
    if isinstance(earlier, Mapping) and is_quarantined(item):
        mark |= {key: earlier[key] for key in ("id", "trust", "expires_at") if key in earlier}
    until = now + keep if item.expires_at is None else min(now + keep, item.expires_at)
    return replace(item, id=item_id, trust=0.0, expires_at=until, metadata={**item.metadata, QUARANTINE: mark})
