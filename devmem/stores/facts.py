"""Facts beside the turns of a store: a chat model extracts them in the background, and no write waits for it.

A turn is announced in a durable queue before it is stored. A thread asks the model about the turns that wait, and
stores their facts in one transaction, on condition that the turn is still what the model read. A fact has the id of
its subject and attribute within the turn's exact scope, so that a new value becomes a new version of it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from pydantic import JsonValue

from devmem.errors import (
    ChatModelError,
    CollectionError,
    DevmemError,
    Finding,
    MissingExtraError,
    VersionConflictError,
)
from devmem.forks import follow_forks
from devmem.model.filters import Filter, exactly, time_of
from devmem.model.items import (
    AGENT_KEY,
    FACT,
    FACT_KEY,
    FACT_SOURCE,
    TRUST,
    MemoryItem,
    Provenance,
    SourceKind,
    agent_of,
    fact_id,
    is_fact,
    is_quarantined,
    parent_hash,
    version_hash,
)
from devmem.model.results import Fact, WriteOutcome, WriteStatus
from devmem.model.versions import RunState
from devmem.models.facts import DropReason, Extraction, FactModel, Said, Statement, normal
from devmem.models.summarizer import prompt_language
from devmem.storage.erasure import EraseRequest, EraseResult
from devmem.storage.protocol import Collection, StateKey
from devmem.storage.versions import VersionedCollection, states_of
from devmem.storage.writing import Unique
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.config import FactKeepingConfig, FactsConfig
from devmem.stores.fact_queue import (
    CALLS,
    EXTRACTED,
    FAILURES,
    TOKENS_IN,
    TOKENS_OUT,
    FactQueue,
    FactStatus,
    WaitingTurn,
    examine_queue,
)
from devmem.stores.memory import MemoryBase, Progress, StoreSetup
from devmem.text.moments import local
from devmem.text.patterns import lazy_pattern
from devmem.text.retry import Backoff

_LOG: Final = logging.getLogger(__name__)
_LONGEST_PAUSE: Final = 300.0
_SECONDS_A_CLOSE: Final = 2.0
"""Time that closing leaves to the turn that the model is asked about; it is asked again by the next process."""
_CONFLICTS: Final = 5
"""Attempts to store the facts of a turn that others keep changing."""
_SHOWN: Final = 50
"""Maximum number of subjects and attributes in use that the model is shown."""
_BATCH_SIZE: Final = 500
_EXPECTED_FOR: Final = 3_600.0
"""Seconds for which an item may be missing that was announced before it was written, while no run is pending."""
_FAR: Final = 1e11
"""Seconds since the epoch beyond which a time is the open end of a period."""
_ROLE: Final = lazy_pattern(r"(?:\A|\n\n)\((system|user|assistant|tool)\) ")


class FactKeepingMemory(CollectionMemory):
    """A store that keeps the facts of its turns beside them, if its configuration, a `FactKeepingConfig`, says so.

    A store type may override `texts_of`, who said what in a turn, and `fact_metadata`.
    """

    def __init__(self, setup: StoreSetup) -> None:
        super().__init__(setup)
        config = setup.config.facts if isinstance(setup.config, FactKeepingConfig) else None
        self._facts = self._observer = None if config is None else FactExtractor(self, config)
        if config is not None:
            index = self._options.index
            keys = tuple(dict.fromkeys((*index.metadata, FACT_SOURCE, FACT_KEY)))
            self._options = self._options.model_copy(update={"index": index.model_copy(update={"metadata": keys})})

    def texts_of(self, item: MemoryItem) -> list[Said]:
        """Return what was said in a turn, and by whom; nothing for an item whose facts are not to be extracted."""
        return exchange_of(item)

    def fact_metadata(self, item: MemoryItem) -> Mapping[str, JsonValue]:
        """Return metadata of a turn that its facts have too."""
        agent = item.metadata.get(AGENT_KEY)
        return {AGENT_KEY: agent} if isinstance(agent, str) else {}

    def fact_status(self) -> FactStatus | None:
        """Return what became of the store's turns; None where it extracts no facts."""
        return None if self._facts is None else self._facts.queue.status(self._facts.failure)

    def catch_up_facts(self, progress: Progress | None = None, *, whole: bool = False) -> FactStatus:
        """Extract the facts of the turns that wait, until the model stops answering.

        Args:
            progress: is called with the number of turns done so far.
            whole: ask about every stored turn without facts, also what was stored before there was a `facts:` block.

        Raises:
            ValueError: the store extracts no facts.
            CollectionError: the store cannot be read or written.
        """
        if self._facts is None:
            raise ValueError(f"memory store {self.name!r} has no `facts:` block")
        if whole:
            self._facts.announce_stored()
        self._facts.catch_up(progress)
        return self._facts.queue.status(self._facts.failure)

    def _replaced(self, items: Sequence[MemoryItem]) -> None:
        """Delete facts that are trusted more than their turn is now; those of a trusted turn are extracted again."""
        super()._replaced(items)
        if self._facts is not None:
            self._facts.forget_too_trusted(items)

    def save(self) -> None:
        """Finish what waits; the facts that are still to be extracted are so in the background."""
        super().save()
        if self._facts is not None:
            self._facts.start()

    def show(self, view: Collection, origin: MemoryBase) -> None:
        """Take a view of another store's collection; that store extracts the facts of turns that become current."""
        super().show(view, origin)
        if self._facts is not None and isinstance(origin, FactKeepingMemory) and origin._facts:  # noqa: SLF001 - of this class
            self._facts.is_view, self._facts.queue = True, origin._facts.queue  # noqa: SLF001 - of this class

    def clear(self) -> int:
        """Delete everything; return how many items there were."""
        deleted = super().clear()
        if self._facts is not None:
            self._facts.queue.remove([turn.id for turn in self._facts.queue.turns()])
        return deleted

    def erase_selected(
        self, request: EraseRequest, derived: Sequence[str] = (), *, words: Sequence[str] = (), vacuum: bool = False
    ) -> EraseResult:
        """Erase items down to the bytes; no facts of them are extracted any more."""
        if self._facts is not None:
            self._facts.queue.remove([*(item.id for item in self.select_erasable(request)), *derived])
        return super().erase_selected(request, derived, words=words, vacuum=vacuum)

    def examine_states(self, states: Mapping[StateKey, bytes]) -> tuple[Mapping[str, Fact], Sequence[Finding]]:
        """Return counts of facts, and the turns that wait."""
        return examine_queue(states)

    def close(self) -> None:
        """Release the collection; turns whose facts are not extracted yet wait for the next process."""
        if self._facts is not None:
            self._facts.close()
        super().close()


def exchange_of(item: MemoryItem) -> list[Said]:
    """Return what was said to an agent and what it answered, or the one text of an item."""
    heard = item.metadata.get("received_from")
    asking = str(heard[0]) if isinstance(heard, list) and len(heard) == 1 else item.scope.user or "user"
    said = list(_messages(item.input_snapshot.text, asking)) if item.input_snapshot else []
    shot = item.output_snapshot
    text = shot.text if shot is not None and shot.text.strip() else "" if said else item.content_summary
    speaker = item.metadata.get("speaker")
    kind = item.provenance.kind
    named = item.scope.user or "user" if kind is SourceKind.USER else agent_of(item) or item.provenance.name or kind
    said.append(Said(speaker if isinstance(speaker, str) and speaker else str(named), text))
    return [one for one in said if one.text.strip()]


def _messages(text: str, asking: str) -> Iterator[Said]:
    """Yield the messages of a snapshot; what the system says is not a fact about anybody."""
    parts = _ROLE.split(text)
    if parts[0].strip():
        yield Said(asking, parts[0])
    for role, said in zip(parts[1::2], parts[2::2], strict=True):
        if role != "system":
            yield Said(asking if role == "user" else role, said)


class FactExtractor:
    """Extracts the facts of one store's turns, in its own thread; safe to use from several threads."""

    def __init__(self, store: FactKeepingMemory, config: FactsConfig) -> None:
        self._store, self._config, setup = store, config, store.setup
        self._model = FactModel(config.llm, setup.open_chat, limit=config.per_turn, length=config.max_length)
        self._backoff = Backoff(longest=_LONGEST_PAUSE, clock=setup.monotonic)
        self.queue = FactQueue(lambda: states_of(store.collection))
        self.is_view = False
        """Whether the store is a view, whose turns are not those of everybody yet."""
        self.failure = ""
        """Why the model did not answer last; empty where it did."""
        self._state = threading.Condition()
        self._thread: threading.Thread | None = None
        self._has_work = self._closing = False
        self._taken: tuple[WaitingTurn, Counter[str]] | None = None
        """The turn that the model is asked about, and the calls and tokens that were spent on it."""
        follow_forks(self)

    def restart_in_child(self) -> None:
        """Leave the turn to the parent's thread; the next one to be stored starts a thread here."""
        self._thread, self._taken = None, None

    # What waits.

    def _is_turn(self, item: MemoryItem) -> bool:
        is_read = item.provenance.kind in self._config.sources and not is_fact(item)
        return is_read and not is_quarantined(item) and bool(self._store.texts_of(item))

    def announce(self, items: Sequence[MemoryItem]) -> list[str]:
        """Record the turns among items that are about to be stored, and return their ids.

        A queue that cannot be written costs no write: what is stored stays without facts, which is logged.
        """
        ids = [item.id for item in items if self._is_turn(item)]
        try:
            if ids:
                self.queue.announce(ids, self._store.setup.clock())
        except CollectionError as error:
            self._warn(
                "%d turn(s) stay without facts unless `devmem consolidate --facts all` asks for them: %s",
                len(ids),
                error,
            )
            return []
        return ids

    def settle(self, announced: Sequence[str], items: Sequence[MemoryItem], outcomes: Sequence[WriteOutcome]) -> None:
        """Compare what was announced with what was stored, and start extracting."""
        known = set(announced)
        gone, new = [], []
        for item, outcome in zip(items, outcomes, strict=True):
            if item.id not in known or (outcome.item_id == item.id and outcome.status is not WriteStatus.SKIPPED):
                continue
            gone.append(item.id)
            if outcome.item_id and outcome.status in (WriteStatus.STORED, WriteStatus.SUPERSEDED):
                new.append(outcome.item_id)
        try:
            if new:
                self.queue.announce(new, self._store.setup.clock())
            self.queue.remove(gone)
        except CollectionError as error:
            self._warn("the queue of facts could not be brought up to date: %s", error)
        self.start()

    def announce_stored(self) -> None:
        """Announce every stored turn without facts."""
        collection = self._store.collection
        told = {str(item.metadata.get(FACT_SOURCE)) for item in collection.scan() if is_fact(item)}
        turns = (item.id for item in collection.scan() if item.id not in told and self._is_turn(item))
        while batch := list(islice(turns, _BATCH_SIZE)):
            self.queue.announce(batch, self._store.setup.clock())

    # Working it off.

    def start(self) -> None:
        """Extract what waits in the background, unless the model is left alone after a failure."""
        if self.is_view or self._backoff.left:
            return
        with self._state:
            self._has_work = True
            if self._closing or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name="devmem-facts", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                # As at the end of the interpreter: the turns wait for the next process.
                self._warn("facts wait: %s", error)
                return
            self._thread = thread

    def _run(self) -> None:
        try:
            while True:
                with self._state:
                    wanted, self._has_work = self._has_work and not self._closing and not self._backoff.left, False
                    if not wanted:
                        # Whoever brings work from now on starts another thread.
                        self._thread = None
                        return
                self._work_off(None)
        except Exception as error:  # noqa: BLE001 - a chat model may be a stranger's code; nobody waits for this thread
            if not self._closing:
                self._failed(error)
        finally:
            with self._state:
                self._thread = None
                self._state.notify_all()

    def catch_up(self, progress: Progress | None) -> None:
        """Extract what waits in the caller's thread; a model that failed a moment ago is asked again."""
        with self._state:
            self._state.wait_for(lambda: self._thread is None or not self._thread.is_alive())
        self._backoff.worked()
        self._work_off(progress)

    def _work_off(self, progress: Progress | None) -> None:
        done, worked = 0, True
        try:
            while worked:
                worked = False
                for waiting in self.queue.turns():
                    if self._closing:
                        return
                    if self._work_on(waiting):
                        done, worked = done + 1, True
                        if progress:
                            progress(done)
        except (ChatModelError, MissingExtraError) as error:
            self._failed(error)

    def _work_on(self, waiting: WaitingTurn) -> bool:
        """Extract the facts of a turn, unless another process has it; return whether it is out of the queue."""
        now = self._store.setup.clock()
        if not self._store.get([waiting.id]):
            # It may be stored yet, as when a pending run is committed.
            collection = self._store.collection
            runs = collection.runs() if isinstance(collection, VersionedCollection) else []
            if now - waiting.since <= _EXPECTED_FOR or any(run.state is RunState.PENDING for run in runs):
                return False
        if (taken := self.queue.take(waiting, now)) is None:
            return False
        spent, counts, failed = Counter[str](), None, True
        self._taken = taken, spent
        try:
            counts = self._extracted(taken.id, spent, was_taken=waiting.taken_until > 0)
            failed = False
        finally:
            # Without it, `close` has given the turn back.
            with self._state:
                is_own, self._taken = self._taken is not None, None
            if is_own and counts is not None:
                self.queue.finish(taken, spent + Counter(counts))
            elif is_own:
                self.queue.give_back(taken, spent, failed=failed)
        return counts is not None

    def _extracted(self, item_id: str, spent: Counter[str], *, was_taken: bool) -> Mapping[str, int] | None:
        """Extract and store the facts of a turn; return what to count, None where the turn has to wait.

        The call of the model is added to `spent`, whether or not it is answered.
        """
        item = next(iter(self._store.get([item_id])), None)
        if item is None or not self._is_turn(item):
            # It was deleted, or never stored.
            return {}
        older = self._facts_from(item.id)
        if current := [fact for fact in older if _is_current(fact, item)]:
            # A process died after it had stored them.
            return {EXTRACTED: len(current)} if was_taken else {}
        keys = self._store.values(f"metadata.{FACT_KEY}", exactly(item.scope), limit=_SHOWN)
        known = [key for key in keys if isinstance(key, str)]
        texts = self._store.texts_of(item)
        self._model.open()
        with self._state:
            # `close` counts what is spent when it gives the turn back: no call may follow that.
            is_closing = self._closing
            spent[CALLS] += not is_closing
        if is_closing:
            return None
        try:
            found = self._model.facts_of(texts, said_at=time_of(item), known=known)
        except ChatModelError as error:
            spent.update({FAILURES: 1, TOKENS_IN: error.input_tokens, TOKENS_OUT: error.output_tokens})
            raise
        spent.update({TOKENS_IN: found.usage.input_tokens, TOKENS_OUT: found.usage.output_tokens})
        self._backoff.worked()
        self.failure = ""
        return None if self._closing else self._stored(item, found, older)

    def _stored(self, item: MemoryItem, found: Extraction, older: Sequence[MemoryItem]) -> Mapping[str, int] | None:
        counts: Counter[str] = Counter({reason.value: number for reason, number in found.dropped.items()})
        made = [self._composed(item, statement) for statement in found.statements]
        for _ in range(_CONFLICTS):
            there = {each.id: each for each in self._store.get([fact.id for fact in made])}
            reasons = {fact.id: self._refusal(fact, there.get(fact.id)) for fact in made}
            new = [fact for fact in made if reasons[fact.id] is None]
            versions = {fact.id: version_hash(there[fact.id]) if fact.id in there else None for fact in new}
            try:
                # Only if the turn is still what the model read: it may have been changed, or erased.
                outcomes = self._store.store_items(
                    new, unique=Unique.ID, expected={**versions, item.id: version_hash(item)}
                )
            except VersionConflictError as error:
                if error.item_id == item.id:
                    return None
                continue
            kept = [one.status is not WriteStatus.SKIPPED for one in outcomes]
            refused = Counter(reason.value for reason in reasons.values() if reason is not None)
            self._forget(fact.id for fact in older if fact.id not in {each.id for each in made})
            return counts + refused + Counter({EXTRACTED: sum(kept), DropReason.NOT_STORED: kept.count(False)})
        return None

    def _refusal(self, fact: MemoryItem, there: MemoryItem | None) -> DropReason | None:
        """Return why a fact does not take the place of the item with its id; None where it does."""
        if there is None or there.provenance.parents == fact.provenance.parents:
            return None
        if not is_fact(there):
            return DropReason.TAKEN
        if _value(there) == _value(fact) and self._store.get(there.provenance.parents):
            return DropReason.KNOWN
        if time_of(there) > time_of(fact):
            return DropReason.OLDER
        return DropReason.LESS_TRUSTED if there.trust > fact.trust else None

    def _composed(self, item: MemoryItem, statement: Statement) -> MemoryItem:
        """Return the item of a fact: of the turn's exact scope, trusted no more than it, and gone with it."""
        scope, key = item.scope, statement.key
        parts: dict[str, JsonValue] = {name: getattr(statement, name) for name in ("subject", "attribute", "value")}
        parts |= {"key": [*key], "quote": statement.quote}
        if statement.period is not None:
            # An open end of a period is left out.
            edges = {"from": statement.period.start, "until": statement.period.end}
            parts |= {name: local(edge).isoformat() for name, edge in edges.items() if abs(edge) < _FAR}
            parts["time"] = statement.time
        return MemoryItem(
            id=fact_id(scope, key),
            content_summary=statement.worded(prompt_language(statement.quote, "auto")),
            metadata={
                **self._store.fact_metadata(item),
                FACT: parts,
                FACT_KEY: ".".join(key),
                FACT_SOURCE: item.id,
                "speaker": statement.speaker,
            },
            created_at=self._store.setup.clock(),
            event_time=time_of(item),
            expires_at=item.expires_at,
            scope=scope,
            provenance=Provenance(kind=item.provenance.kind, name=item.provenance.name, parents=(item.id,)),
            trust=min(item.trust, TRUST[SourceKind.NODE]),
        )

    def _facts_from(self, item_id: str) -> list[MemoryItem]:
        return [each for each in self._store.scan(Filter(metadata={FACT_SOURCE: item_id})) if is_fact(each)]

    def forget_too_trusted(self, items: Sequence[MemoryItem]) -> None:
        """Delete the facts that are trusted more than the turn that they were extracted from is now."""
        turns = (item for item in items if not is_fact(item))
        self._forget(fact.id for item in turns for fact in self._facts_from(item.id) if fact.trust > item.trust)

    def _forget(self, ids: Iterable[str]) -> None:
        if gone := list(ids):
            self._store.delete(ids=gone)

    def _failed(self, error: Exception) -> None:
        if not self.failure:
            self._warn("facts wait, and are extracted when the model answers again: %s", error)
        self.failure = f"{type(error).__name__}: {error}"
        self._backoff.failed()

    def _warn(self, message: str, *arguments: object) -> None:
        _LOG.warning("memory store %r: " + message, self._store.name, *arguments)

    def close(self) -> None:
        """Stop extracting, and leave what is not finished to the next process."""
        with self._state:
            if not self.is_view and not self._closing:
                self._state.wait_for(lambda: self._thread is None, _SECONDS_A_CLOSE)
            self._closing = True
            taken, self._taken = self._taken, None
        if taken is not None:
            turn, spent = taken
            try:
                self.queue.give_back(turn, spent, failed=False)
            except DevmemError as error:
                self._warn("the turn %s waits for some minutes: %s", turn.id, error)


def _is_current(fact: MemoryItem, item: MemoryItem) -> bool:
    """Whether a fact is of what its turn says now, and for those who see the turn."""
    return (
        fact.provenance.parent_hashes == (parent_hash(item),)
        and replace(fact.scope, trace=None, run=None) == replace(item.scope, trace=None, run=None)
        and fact.trust <= item.trust
    )


def _value(item: MemoryItem) -> str:
    parts = item.metadata.get(FACT)
    return normal(str(parts.get("value"))).casefold() if isinstance(parts, Mapping) else ""
