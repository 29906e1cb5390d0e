"""The stores of a target behind the page: opened once, read and changed within one scope."""

from __future__ import annotations

import getpass
import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Final

import devmem
from devmem.config.workflow import NodeConfig, Workflow
from devmem.errors import DevmemError, ItemNotFoundError, NoVersionsError, ReadOnlyPageError
from devmem.memory.memory import Memory
from devmem.memory.reading import MemoryReader
from devmem.memory.scope import ScopeParts
from devmem.memory.statistics import counts_by_day
from devmem.memory.tables import History
from devmem.model.border import is_fit
from devmem.model.caller import Caller
from devmem.model.conditions import Order
from devmem.model.filters import Filter
from devmem.model.items import ANY, LEAST_TRUST, PINNED, TRUST, MemoryItem, Scope, is_pinned, is_quarantined
from devmem.model.results import FileReport, MemoryRetrievalResult, SearchReport
from devmem.model.versions import RunInfo
from devmem.recording.log import InteractionLog
from devmem.storage.pending import STATE_FILE, examine_pending
from devmem.storage.recall_log import Recall, RecallLog, SlowRecall
from devmem.stores.abilities import keeps_versions
from devmem.stores.erasing import ForgetReceipt
from devmem.stores.fact_queue import FactStatus
from devmem.stores.facts import FactKeepingMemory
from devmem.stores.memory import MemoryBase, MemoryQuery
from devmem.stores.query_embedding import QueryEmbedding
from devmem.text.moments import parse_moment
from devmem.views.diagrams import CallNode, call_tree
from devmem.web.question import MOST_HITS, UNSCOPED, Question
from devmem.web.texts import near_words
from devmem.workflow.forgetting import WorkflowReceipt
from devmem.workflow.manager import MemoryManager
from devmem.workflow.stores import session_folder

_LISTED: Final = 50
"""Number of items on a page of the list."""
_COUNTED_EVERY: Final = 30.0
_OFFERED: Final = 50
"""Number of users, agents and sources of a store that the form offers, those with the most items."""
_NEIGHBOURS: Final = 3
_AROUND: Final = (1.0, 60.0, 3_600.0, 86_400.0)
"""Seconds before and after an item in which its neighbours in a conversation are looked for, until there are enough."""
_LATEST: Final = 300
"""Number of the latest items in which conversations are looked for."""
_MOST_QUARANTINED: Final = 50
"""Number of quarantined items of a store that are listed."""
_DAYS: Final = 14
"""Number of the last days whose items are counted."""
_MOST_SLOW: Final = 10
"""Number of slow searches that are listed."""
_MOST_MESSAGES: Final = 60
"""Number of the last messages that one diagram shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAnswer:
    """Answer of one store, or the reason why it has none."""

    store: str
    report: SearchReport = field(default_factory=SearchReport)
    milliseconds: float = 0.0
    error: str = ""
    near: Sequence[frozenset[str]] = ()
    """For each hit the folded words that met the question by meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list of items."""

    rows: list[tuple[str, MemoryItem]]
    """Items with their stores, newest first."""
    older: tuple[int, ...] | None
    """Number of items of each store that the next page passes over; None where this is the last one."""
    problems: list[str]
    """Why stores could not be read."""


def _state_of(memory: Memory, asked: Question) -> AbstractContextManager[MemoryReader]:
    """Return what a question is asked of, for a `with` block: current, earlier or archived records."""
    if asked.archived:
        return memory.archived()
    return memory.as_of(asked.as_of) if asked.as_of else nullcontext(memory)


class Desk:
    """The stores of a target, within a scope that no request can widen. Thread-safe, as the stores are."""

    def __init__(
        self,
        workflow: Workflow,
        stores: Mapping[str, MemoryBase],
        *,
        session: str,
        user: str | None = None,
        read_only: bool = False,
    ) -> None:
        """Take open stores.

        Args:
            workflow: declares them.
            stores: the stores by name, loaded; they belong to the caller.
            session: the session whose files they use.
            user: the only user whose items are reached; None reaches everybody's, and unscoped ones.
            read_only: refuse every change.
        """
        self.workflow, self.session, self.user, self.read_only = workflow, session, user, read_only
        scope: ScopeParts = {} if user is None else {"user": user}
        memories = {name: Memory(store) for name, store in stores.items()}
        self.memories = {name: memory.scoped(**scope) if scope else memory for name, memory in memories.items()}
        self._names: tuple[float, dict[str, list[str]]] = (0.0, {})
        self.recalls = RecallLog(session_folder(workflow, session) / STATE_FILE)

    @property
    def name(self) -> str:
        """Name of the target."""
        return self.workflow.file.name if self.workflow.file else ", ".join(self.memories)

    @property
    def agents(self) -> list[NodeConfig]:
        """Agent nodes all of whose stores are open."""
        return [
            node for node in self.workflow.nodes
            if node.config is not None and all(entry.name in self.memories for entry in node.config.memories)
        ]  # fmt: skip

    def ask(self, asked: Question, *, share: float = 1.0) -> list[StoreAnswer]:
        """Search the stores that a question names; one that fails is an answer with its error.

        Args:
            asked: the question.
            share: part of the page's time that marking words by meaning may take.

        Raises:
            ValueError: a time, a store or another field cannot be used.
        """
        asked.matching()
        if asked.as_of:
            parse_moment(asked.as_of)
        chosen = [asked.store] if asked.store else list(self.memories)
        return [self._ask(self.memory(name), name, asked, share=share / len(chosen)) for name in chosen]

    def listed(self, asked: Question, start: Sequence[int] = ()) -> Listing:
        """Return the items that the fields of a question select, newest first, those of all stores merged.

        Args:
            asked: the fields.
            start: `older` of the page before.

        Raises:
            ValueError: a time, a store or another field cannot be used.
        """
        where, scope = asked.matching(), self._scope(asked)
        names = list(self.memories)
        offsets = dict(zip(names, start, strict=True)) if start else dict.fromkeys(names, 0)
        found: list[list[tuple[str, MemoryItem]]] = []
        problems: list[str] = []
        for name in [asked.store] if asked.store else names:
            memory = self.memory(name)
            try:
                with _state_of(memory, asked) as state:
                    items = state.list(_LISTED + 1, where=where, offset=offsets[name], **scope)
            except DevmemError as error:
                problems.append(f"{name}: {error}")
                continue
            found.append([(name, item) for item in items])
        merged = list(heapq.merge(*found, key=lambda row: -row[1].created_at))
        rows = merged[:_LISTED]
        taken = Counter(name for name, _ in rows)
        older = tuple(offsets[name] + taken[name] for name in names) if len(merged) > len(rows) else None
        return Listing(rows=rows, older=older, problems=problems)

    @property
    def _everybody(self) -> ScopeParts:
        """The widest scope: everybody's items, or those of the page's user."""
        return {} if self.user is not None else {"user": ANY}

    def _scope(self, asked: Question) -> ScopeParts:
        return {} if self.user is not None else {"user": asked.whose}

    def names(self) -> dict[str, list[str]]:
        """Return the users, agents and sources that items within reach have, those with the most items first.

        They are counted again after `_COUNTED_EVERY` seconds: of 100,000 items that takes a third of a second.
        """
        if time.monotonic() < self._names[0]:
            return self._names[1]
        counts = {kind: Counter[str]() for kind in ("user", "agent", "source_name")}
        for memory in self.memories.values():
            for kind, counted in counts.items():
                for value, number in memory.count(by=kind, **self._everybody):
                    if value not in (None, ""):
                        counted[str(value)] += number
        found = {kind: [name for name, _ in counted.most_common(_OFFERED)] for kind, counted in counts.items()}
        self._names = (time.monotonic() + _COUNTED_EVERY, found)
        return found

    def elsewhere(self, asked: Question, name: str) -> list[tuple[str, str, int]]:
        """Return where a question finds items of a store beyond its user, agent or source, each without that field.

        Each is the name of the field, the value that finds something, and the number of items.

        Raises:
            DevmemError: the store cannot be searched.
        """
        wider = {
            "agent": asked.model_copy(update={"agent": "", "limit": MOST_HITS}),
            "source": asked.model_copy(update={"source": "", "limit": MOST_HITS}),
        }
        if self.user is None:
            wider["user"] = asked.model_copy(update={"user": "", "limit": MOST_HITS})
        found: list[tuple[str, str, int]] = []
        for part, question in wider.items():
            if not getattr(asked, part):
                continue
            with _state_of(self.memory(name), question) as state:
                items = [hit.item for hit in state.store.search(self._query(state, question)).hits]
            values = {
                "user": [item.scope.user or UNSCOPED for item in items],
                "agent": [item.scope.agent or "" for item in items],
                "source": [item.provenance.name for item in items],
            }[part]
            found += [(part, value, number) for value, number in Counter(values).most_common() if value]
        return found

    def memory(self, name: str) -> Memory:
        """Return the memory of a store.

        Raises:
            ValueError: there is no such store.
        """
        if name not in self.memories:
            raise ValueError(f"there is no store {name!r}")
        return self.memories[name]

    def _ask(self, memory: Memory, name: str, asked: Question, *, share: float) -> StoreAnswer:
        began = time.perf_counter()
        try:
            with _state_of(memory, asked) as shown:
                query = self._query(shown, asked)
                report = shown.store.search(replace(query, explain=True))
                milliseconds = (time.perf_counter() - began) * 1000
                near = near_words(shown.store, query.embedding, report, share=share)
        except DevmemError as error:
            return StoreAnswer(store=name, error=str(error))
        return StoreAnswer(store=name, report=report, milliseconds=milliseconds, near=near)

    def _query(self, memory: MemoryReader, asked: Question) -> MemoryQuery:
        matching = memory.guard.matching(asked.matching(), **self._scope(asked))
        query = MemoryQuery(
            text=asked.query,
            limit=asked.limit,
            where=matching,
            caller=Caller.of(matching.scope),
            asked_at=asked.when(),
        )
        return replace(query, embedding=QueryEmbedding("")) if asked.words_alone else query

    def ask_as(self, asked: Question) -> MemoryRetrievalResult | None:
        """Return what an agent would be shown; None where that is nothing.

        Raises:
            ValueError: there is no such agent, or a field cannot be used.
            DevmemError: a store cannot be read as of the time.
        """
        node = next((node for node in self.agents if node.id == asked.node), None)
        if node is None or node.config is None:
            raise ValueError(f"there is no agent {asked.node!r}")
        # An agent without a user is shown unscoped items.
        user = self.user if self.user is not None else None if asked.user == UNSCOPED else asked.user or None
        with ExitStack() as shown:
            stores = {name: memory.store for name, memory in self.memories.items()}
            if asked.as_of:
                stores |= {
                    entry.name: shown.enter_context(closing(self.memory(entry.name).as_of(asked.as_of))).store
                    for entry in node.config.memories
                }
            manager = MemoryManager(
                node.config.memories,
                stores,
                options=self.workflow.options(node),
                caller=Caller(node=node.id, agent=node.config.agent or node.id),
            )
            return manager.retrieve(
                query=asked.query,
                current_stage=asked.stage,
                user=user,
                where=asked.matching(),
                asked_at=asked.when(),
            )

    def record(self, store: str, item: str) -> MemoryItem | None:
        """Return a record, an archived one too; None where there is none within reach.

        Raises:
            ValueError: there is no such store.
        """
        memory = self.memory(store)
        if not is_fit(item):
            return None
        return memory.get(item, archived=True)

    def restore(self, store: str, item: str) -> None:
        """Bring an archived record back.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            DevmemError: it cannot be stored.
            ValueError: it is not archived, or a tombstone keeps its text out.
        """
        self.check_writable()
        with devmem.acting_as(_editor()):
            (outcome,) = self.memory(store).restore(item)
        if not outcome:
            raise ValueError(outcome.reason)

    def history(self, store: str, record: MemoryItem) -> History | None:
        """Return the versions of a record; None where the store keeps none."""
        return _history(self.memory(store), record.id)

    def relatives(self, store: str, record: MemoryItem) -> tuple[list[MemoryItem], list[MemoryItem]]:
        """Return the records that a record was derived from, and those that were derived from it."""
        memory = self.memory(store)
        derived = [item.id for item in memory.store.derived_from([record.id])]
        return _records(memory, record.provenance.parents), _records(memory, derived)

    def neighbours(self, store: str, record: MemoryItem) -> list[MemoryItem]:
        """Return the records around a record in its conversation, and itself; none where it is of none."""
        memory, conversation = self.memory(store), record.scope.conversation
        if conversation is None:
            return []
        scope: ScopeParts = {"conversation": conversation}
        if self.user is None:
            scope["user"] = record.user
        at, neighbours = record.time.timestamp(), list[MemoryItem]()
        for around in _AROUND:
            within = Filter(after=at - around, before=at + around)
            found = memory.list(_LATEST, where=within, order=Order.EVENT, **scope)[::-1]
            own = next((place for place, one in enumerate(found) if one.id == record.id), None)
            if own is None:
                # As many happened later and close to it; the wider windows have them too.
                break
            neighbours = found[max(own - _NEIGHBOURS, 0) : own + _NEIGHBOURS + 1]
            if _NEIGHBOURS <= own < len(found) - _NEIGHBOURS:
                break
        return neighbours

    def edit(self, store: str, item: str, text: str, expected: str) -> MemoryItem:
        """Change the text of a record, and return it.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            DevmemError: it is gone, was changed meanwhile, or cannot be stored.
            ValueError: the text is blank.
        """
        self.check_writable()
        with devmem.acting_as(_editor()):
            return self.memory(store).update(item, text, if_version=expected)

    def mark(self, store: str, item: str, how: str, expected: str) -> MemoryItem:
        """Pin or unpin a record, put it in quarantine or release it; return it.

        A pin takes the record's expiry away, and the end of the pin puts it back where the store keeps versions. What
        is released has the trust that it had before, or else that of its origin.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            DevmemError: it is gone, was changed meanwhile, or cannot be stored.
            ValueError: `how` is none of the four.
        """
        self.check_writable()
        memory = self.memory(store)
        if how not in ("pin", "unpin", "quarantine", "release"):
            raise ValueError(f"{how!r} is not pin, unpin, quarantine or release")
        record = memory.get(item)
        if record is None:
            raise ItemNotFoundError(item)
        with devmem.acting_as(_editor()):
            if how == "pin":
                return memory.update(item, metadata={PINNED: True}, expires_at=None, if_version=expected)
            if how == "unpin":
                before = _last(memory, record, lambda one: not is_pinned(one))
                until = (before or record).expires_at
                return memory.update(item, metadata={PINNED: None}, expires_at=until, if_version=expected)
            if how == "quarantine":
                return memory.update(item, trust=0.0, if_version=expected)
            before = _last(memory, record, lambda one: not is_quarantined(one))
            trust = before.trust if before is not None else TRUST[record.provenance.kind]
            return memory.update(item, trust=trust, if_version=expected)

    def fact_counts(self) -> dict[str, FactStatus]:
        """Return what became of the turns of each store that extracts facts."""
        stores = {name: memory.store for name, memory in self.memories.items()}
        kept = {name: store.fact_status() for name, store in stores.items() if isinstance(store, FactKeepingMemory)}
        return {name: status for name, status in kept.items() if status is not None}

    def quarantined(self) -> list[tuple[str, MemoryItem]]:
        """Return the latest records in quarantine, each with its store."""
        where = Filter(none_of=(Filter(min_trust=LEAST_TRUST),))
        return [(name, record) for name, memory in self.memories.items()
                for record in memory.list(_MOST_QUARANTINED, where=where, **self._everybody)]  # fmt: skip

    def forget(self, store: str, item: str, *, dry_run: bool) -> list[ForgetReceipt | WorkflowReceipt]:
        """Forget a record, in a workflow in every store and log of it; return the receipts.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            DevmemError, OSError: it cannot be done.
        """
        if not dry_run:
            self.check_writable()
        memory, record = self.memory(store), self.record(store, item)
        if record is None:
            return []
        with devmem.acting_as(_editor()):
            if self.workflow.file is None or self.user is not None:
                return [memory.forget(item, dry_run=dry_run, verify=True)]
            stores = {name: each.store for name, each in self.memories.items()}
            return [devmem.forget(self.workflow, item, dry_run=dry_run, in_session=self.session, stores=stores,
                                  user=record.user or ANY)]  # fmt: skip

    def check_writable(self) -> None:
        """Raise `ReadOnlyPageError` where nothing may be changed."""
        if self.read_only:
            raise ReadOnlyPageError("this page was opened with --read-only")

    def runs(self) -> Iterator[tuple[str, RunInfo]]:
        """Yield the last runs of each store that keeps versions."""
        for name, memory in self.memories.items():
            if keeps_versions(memory.store):
                for run in memory.runs(20):
                    yield name, run

    def end_run(self, store: str, run: str, how: str) -> RunInfo:
        """Commit, discard or revert a run.

        Raises:
            ReadOnlyPageError: nothing may be changed.
            ValueError: `how` is none of the three.
            DevmemError: it cannot be ended so.
        """
        self.check_writable()
        memory = self.memory(store)
        ends = {"commit": memory.commit, "discard": memory.discard, "revert": memory.revert}
        if how not in ends:
            raise ValueError(f"{how!r} is not commit, discard or revert")
        return ends[how](run)

    def conversations(self) -> list[tuple[str, str, int]]:
        """Return the conversations of the latest items: store, id and number of items, the latest first."""
        found: dict[tuple[str, str], int] = {}
        for name, memory in self.memories.items():
            for record in memory.list(_LATEST, **self._everybody):
                key = record.scope.conversation or record.scope.session or record.scope.run
                if key is not None:
                    found[name, key] = found.get((name, key), 0) + 1
        return [(store, key, count) for (store, key), count in found.items()]

    def said(self, store: str, conversation: str) -> list[MemoryItem]:
        """Return the last items of a conversation, in the order of time."""
        memory = self.memory(store)
        of_it = Filter(
            any_of=tuple(Filter(scope=Scope(**{part: conversation})) for part in ("conversation", "session", "run"))
        )
        return memory.list(_MOST_MESSAGES, where=of_it, order=Order.EVENT, **self._everybody)[::-1]

    def answers(self, steps: Sequence[Recall]) -> dict[int, MemoryItem]:
        """Return for each step the item in which its agent's answer is recorded, by the number of the step."""
        found: dict[int, MemoryItem] = {}
        for run in {step.run for step in steps if step.run}:
            of_run = Filter(scope=Scope(run=run))
            written = [
                item
                for memory in self.memories.values()
                for item in memory.list(_LATEST, where=of_run, **self._everybody)
                if item.output_snapshot is not None
            ]
            for step in steps:
                own = [
                    item for item in written
                    if step.agent in (item.scope.agent, item.provenance.name) and item.created_at >= step.at
                ]  # fmt: skip
                if step.run == run and own:
                    found[step.id] = min(own, key=lambda item: item.created_at)
        return found

    def calls(self, store: str, conversation: str) -> list[CallNode]:
        """Return the calls of a conversation as trees; none where the store records none, or some are out of reach."""
        memory = self.memory(store)
        if not isinstance(memory.store, InteractionLog) or self.user is not None:
            return []
        return call_tree(memory.store.trace(conversation) or memory.store.log(conversation))

    def growth(self, store: str) -> list[tuple[date, int]]:
        """Return how many items within reach each of the last days has, today last."""
        memory = self.memory(store)
        return list(counts_by_day(memory.store, memory.guard.matching(**self._everybody), days=_DAYS))

    def slowest(self) -> list[SlowRecall]:
        """Return the slowest recorded searches within reach, slowest first."""
        found = self.recalls.statistics(_MOST_SLOW if self.user is None else _LATEST).slowest
        return [one for one in found if self.user is None or self._is_own(one.id)][:_MOST_SLOW]

    def _is_own(self, number: int) -> bool:
        step = self.recalls.recall(number)
        return step is not None and step.user == self.user

    def outbox(self) -> list[FileReport]:
        """Return a report of what no store has taken yet, if anything waits; none where only a user's is reached."""
        if self.user is not None or self.workflow.file is None:
            return []
        file = session_folder(self.workflow, self.session) / STATE_FILE
        report = examine_pending(file) if file.exists() else None
        return [report] if report is not None and report.findings else []

    def examine(self, store: str) -> list[FileReport]:
        """Return the reports of a store's files, which takes as long as reading them."""
        return list(self.memory(store).store.examine())


def _editor() -> str:
    """Return who changes an item through the page, as the history has it: the account that opened the page."""
    try:
        return f"devmem web ({getpass.getuser()})"
    except (KeyError, OSError):
        # A container may run as a number that has no account.
        return "devmem web"


def _history(memory: Memory, item: str) -> History | None:
    try:
        return memory.history(item)
    except NoVersionsError:
        return None


def _last(memory: Memory, record: MemoryItem, wanted: Callable[[MemoryItem], bool]) -> MemoryItem | None:
    """Return the last version of a record that is wanted; None where none is kept."""
    versions = _history(memory, record.id) or ()
    return next((version.item for version in reversed(list(versions)) if wanted(version.item)), None)


def _records(memory: Memory, ids: Sequence[str]) -> list[MemoryItem]:
    return [record for each in ids if (record := memory.get(each)) is not None]
