"""The `mem0` store: mem0 extracts, keeps and finds what is worth remembering of users' messages."""

from __future__ import annotations

import heapq
import logging
import math
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import quote
from uuid import uuid4

from pydantic import TypeAdapter

from devmem import Filter, Hit, MemoryBase, MemoryItem, MemoryWritePayload, Scope, WriteOutcome
from devmem.errors import Mem0Error, Mem0RejectedError
from devmem.storage import (
    STATE_FILE,
    CollectionInfo,
    Delivery,
    DeliveryPolicy,
    Entry,
    EraseRequest,
    EraseResult,
    Order,
    Outbox,
    Residue,
    deliver,
    descendants,
    event_key,
    examine_pending,
)
from devmem.stores import (
    ConfigModel,
    EmbeddingConfig,
    FileReport,
    MemoryQuery,
    Provenance,
    SearchReport,
    SourceKind,
    StoreSetup,
    WriteStatus,
    skipped,
)
from devmem.text import strip_frames
from devmem_stores.mem0.backend import EntityIds, Page, Retrier, Write, every_record, find_ids, is_mem0_id
from devmem_stores.mem0.config import Mem0Config
from devmem_stores.mem0.in_process import InProcessMem0, check_package
from devmem_stores.mem0.items import ID_KEY, WRITE_KEY, Record, carried_metadata, to_item

if TYPE_CHECKING:
    from devmem_stores.mem0.hosted import HostedMem0

_LOG: Final = logging.getLogger(__name__)
Progress = Callable[[int], None]

_NEVER: Final = -math.inf
"""Time at which nothing has expired: mem0 itself leaves out what has."""
_WIDER: Final = 10
"""Factor by which `top_k` is widened when a filter that mem0 does not know picks from the results."""
_POLICY: Final = DeliveryPolicy(
    failures=(Mem0Error,),
    refusals=(Mem0RejectedError,),
    idempotent=False,
    may_have_arrived=lambda error: not isinstance(error, Mem0Error) or error.maybe_done,
)


_WRITES: Final = TypeAdapter(Write)


def open_outbox(file: Path, store: str) -> Outbox[Write]:
    """Return the outbox of a store in a file."""
    return Outbox(file, dump=lambda write: _WRITES.dump_json(write).decode(), load=_WRITES.validate_json, place=store)


def _own_filter(where: Filter, config: Mem0Config) -> Filter:
    """Return the filter without the unbound parts that the configuration binds: all of the store is that user's."""
    bound = {"user": config.user_id, "agent": config.agent_id, "run": config.run_id}
    return replace(where, unbound=tuple(part for part in where.unbound if bound.get(part) is None))


class Mem0Memory(MemoryBase):
    """Sends what users say to mem0, and asks mem0 what it remembers.

    A failure to read is raised; a write that fails is kept in the outbox and sent before the next one.
    """

    config_model: ClassVar[type[ConfigModel]] = Mem0Config
    summary: ClassVar[str] = "mem0: extracts what is worth remembering; hosted, self-hosted or in this process"

    def __init__(self, setup: StoreSetup, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Prepare the store; nothing is imported or asked yet."""
        super().__init__(setup)
        self.config = setup.config_as(Mem0Config)
        self._retrier = Retrier(self.config.retries, clock=setup.monotonic, sleep=sleep)
        self._opening = threading.Lock()
        self._opened: HostedMem0 | InProcessMem0 | None = None
        self._closed = False
        file: Path | None = None
        if self.config.outbox != "auto":
            place = setup.location(self.config.outbox)
            file = Path(place) if place else None
        elif setup.session_dir is not None:
            file = setup.session_dir / STATE_FILE
        self._outbox = open_outbox(file, setup.name) if file is not None else None

    def examine(self) -> Iterable[FileReport]:
        """Report on the outbox where it has a file of its own; the memories are mem0's."""
        file = None if self.config.outbox == "auto" or self._outbox is None else self._outbox.file
        return [examine_pending(file, self.name)] if file is not None and file.exists() else ()

    @property
    def backend(self) -> HostedMem0 | InProcessMem0:
        """Return mem0, hosted or in this process, which raise `Mem0Error`; the first call that needs it connects."""
        with self._opening:
            if self._closed:
                raise Mem0Error("setup", "start", f"memory store {self.name!r} was closed")
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> HostedMem0 | InProcessMem0:
        # Imported here, because they need what only comes with mem0.
        session, client = self.setup.session_dir, self.setup.service_client
        if client is None:
            check_package()
        if self.config.mode == "platform":
            from devmem_stores.mem0.hosted import HostedMem0

            return HostedMem0(self.config, session / "mem0" if session else None, client)
        embedding = self.config.embedding or (None if "embedder" in self.config.oss else EmbeddingConfig())
        embedder = self.setup.embedder(embedding) if embedding else None
        folder = session / "mem0" if session else Path(tempfile.mkdtemp(prefix="devmem-mem0-"))
        return InProcessMem0(self.setup, self.config, embedder, folder / quote(self.name, safe=""))

    def load(self) -> None:
        """Make sure that mem0 is installed; it is connected to when it is needed, so that an outage stops no run."""
        if self.setup.service_client is None:
            check_package()

    def save(self) -> None:
        """Send what waits in the outbox, if mem0 answers; what still waits is logged and stays."""
        if self._outbox is None or not self._outbox.waiting() or self._retrier.resting:
            return
        stopped = self._deliver(self._outbox).stopped_by
        if waiting := self._outbox.waiting():
            place = self._outbox.location
            _LOG.warning("memory store %r: %d write(s) wait in %s: %s", self.name, waiting, place, stopped)

    @property
    def unsent(self) -> int:
        """Number of writes that wait in the outbox."""
        return self._outbox.waiting() if self._outbox else 0

    @property
    def refused(self) -> int:
        """Number of writes that mem0 refused permanently; they stay in the outbox's file."""
        return self._outbox.refused() if self._outbox else 0

    def answer(self, query: MemoryQuery) -> SearchReport:
        """Ask mem0, and keep what the filter admits."""
        text = strip_frames(query.text).strip()
        if not text:
            return SearchReport()
        ids = find_ids(self.config, query.where.scope, query.agent_role, operation="search")
        where = _own_filter(query.where, self.config)
        by_user = Filter(scope=Scope(user=ids.user_id), include_unscoped=where.include_unscoped)
        is_found_by_ids = where.everything() or (where == by_user and ids.agent_id is None and ids.run_id is None)
        limit = query.limit if is_found_by_ids else query.limit * _WIDER
        threshold = query.similarity_threshold if query.similarity_threshold >= 0 else None
        found = self._retrier.call("search", lambda: self.backend.search(text, ids, limit, threshold))
        hits = [Hit(item=to_item(record, role=query.agent_role), score=record.score or 0.0) for record in found]
        admitted = [hit for hit in hits if where.admits(hit.item, _NEVER)]
        return SearchReport(hits=tuple(admitted[: query.limit]), candidates=len(hits))

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        """Send what the user said."""
        text = strip_frames(payload.inputs_text).strip()
        if not text:
            return skipped("the user said nothing, and nothing else is sent to mem0")
        item = MemoryItem(
            content_summary=text,
            metadata=payload.metadata,
            scope=payload.scope,
            event_time=payload.event_time,
            expires_at=self._expiry(payload.expires_at),
            trust=payload.trust,
            provenance=Provenance(kind=SourceKind.NODE, name=payload.source),
            created_at=self.setup.clock(),
        )
        key = uuid4().hex
        return self._send(
            Write(
                key=key,
                text=text,
                ids=find_ids(self.config, payload.scope, payload.agent_role, operation="add"),
                infer=self.config.infer,
                metadata=carried_metadata(item, marks={WRITE_KEY: key}, keep_time=False),
                timestamp=None if payload.event_time is None else int(payload.event_time),
            )
        )

    def _send(self, write: Write) -> WriteOutcome:
        """Send what waits, then the write; raises `Mem0Error` where it fails and no outbox keeps it."""
        if self._outbox is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=self._transmit(write, maybe_sent=False))
        _ = self.backend  # a store that is closed or lacks its package keeps no write
        self._outbox.put({write.key: write})
        delivery = self._deliver(self._outbox)
        # Asked of the file, because another thread or process may have sent it meanwhile.
        rejection = self._outbox.refusal(write.key)
        if rejection is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=delivery.results.get(write.key))
        if rejection:
            failure = delivery.refused.get(write.key) or Mem0RejectedError("add", rejection)
            reason = f"{rejection} It stays in {self._outbox.location}."
            return WriteOutcome(status=WriteStatus.SKIPPED, reason=reason, failure=failure)
        stopped = delivery.stopped_by or Mem0Error("unknown", "add", "it was not its turn yet")
        reason = f"it waits in {self._outbox.location} and is sent later: {stopped}"
        return WriteOutcome(status=WriteStatus.QUEUED, reason=reason, failure=stopped)

    def _deliver(self, outbox: Outbox[Write]) -> Delivery[str | None]:
        """Send what waits, unless another process does for longer than a request may take."""

        def send(entries: Sequence[Entry[Write]]) -> list[str | None]:
            return [self._transmit(entry.value, maybe_sent=entry.attempts > 0) for entry in entries]

        delivery = deliver(outbox, send, _POLICY, patience=self.config.timeout)
        for error in delivery.refused.values():
            _LOG.error("memory store %r: %s The write stays in %s.", self.name, error, outbox.location)
        return delivery

    def _transmit(self, write: Write, *, maybe_sent: bool) -> str | None:
        """Send a write and return its first memory's id; one that may have arrived before is looked for first."""
        backend, in_doubt = self.backend, maybe_sent

        def attempt() -> str | None:
            nonlocal in_doubt
            if in_doubt:
                found = every_record(lambda number: backend.page(write.ids, number, {WRITE_KEY: write.key}))
                # Compared again, because a server may not know filters by metadata.
                there = next((record.id for record in found if record.marked(WRITE_KEY) == write.key), None)
                if there is not None:
                    return there
            try:
                return backend.add(write)
            except Mem0Error as error:
                in_doubt = in_doubt or error.maybe_done
                raise

        try:
            return self._retrier.call("add", attempt)
        except Mem0Error as error:
            # The last attempt may have failed before it was sent, an earlier one after it.
            error.maybe_done = in_doubt
            raise

    def _expiry(self, given: float | None) -> float | None:
        """Return when an item expires that is given an expiry, or none, which leaves it to `ttl`."""
        ttl = self.config.ttl
        return given if given is not None or ttl is None else self.setup.clock() + ttl

    def add(self, items: Sequence[MemoryItem], progress: Progress | None = None) -> list[WriteOutcome]:
        """Store finished items one by one, as they are and past the outbox; one that is there is not stored again.

        Their embeddings and snapshots cannot be carried: mem0 keeps one text with metadata.
        """
        outcomes: list[WriteOutcome] = []
        for item in items:
            outcomes.append(self._add(item))
            if progress:
                progress(len(outcomes))
        return outcomes

    def _add(self, item: MemoryItem) -> WriteOutcome:
        if not item.content_summary.strip():
            return skipped("the item has no text")
        old = self._record_of(item.id, item.scope)
        if old is not None and old.memory == item.content_summary:
            return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item.id)
        key = uuid4().hex
        item = replace(item, expires_at=self._expiry(item.expires_at))
        write = Write(
            key=key,
            text=item.content_summary,
            ids=find_ids(self.config, item.scope, "", operation="add"),
            infer=False,
            metadata=carried_metadata(item, marks={WRITE_KEY: key, ID_KEY: item.id}),
            timestamp=int(item.created_at),
        )
        self._transmit(write, maybe_sent=False)
        if old is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=item.id)
        # Only now: a crash in between leaves both, never neither.
        self._remove_records([old.id])
        return WriteOutcome(status=WriteStatus.SUPERSEDED, item_id=item.id)

    def _can_list(self, scope: Scope) -> bool:
        """Whether the configuration or a scope says whose memories are meant, without which mem0 lists none."""
        config = self.config
        return any((config.user_id, config.agent_id, config.run_id, scope.user, scope.agent))

    def _page(self, ids: EntityIds, number: int, metadata: Mapping[str, str] | None = None) -> Page:
        return self._retrier.call("list memories", lambda: self.backend.page(ids, number, metadata))

    def _listed(self, where: Filter | None, operation: str) -> Iterator[tuple[str, MemoryItem]]:
        """Return every item that passes the filter, with mem0's id of it."""
        where = _own_filter(where or Filter(), self.config)
        ids = find_ids(self.config, where.scope, "", operation=operation)
        for record in every_record(partial(self._page, ids)):
            if where.admits(item := to_item(record), _NEVER):
                yield record.id, item

    def _record_of(self, item_id: str, scope: Scope | None = None) -> Record | None:
        """Return the record of an item, by mem0's id or by the one that it was imported with."""
        if is_mem0_id(item_id):
            record = self._retrier.call("get", partial(self.backend.get, item_id))
            if record is not None:
                return record
        ids = find_ids(self.config, scope or Scope(), "", operation="get")
        # Compared again, because a server may not know filters by metadata.
        found = every_record(lambda number: self._page(ids, number, {ID_KEY: item_id}))
        return next((record for record in found if record.marked(ID_KEY) == item_id), None)

    def _remove_records(self, ids: Iterable[str]) -> int:
        return sum(self._retrier.call("delete", partial(self.backend.delete, one)) for one in ids)

    def get_all(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Return every item, as mem0 orders them, a page at a time."""
        return (item for _, item in self._listed(where, "list memories"))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that are there, in the order of `ids`."""
        return [to_item(record) for record in map(self._record_of, ids) if record is not None]

    def recent(
        self, limit: int, where: Filter | None = None, *, order: Order = Order.STORED, offset: int = 0
    ) -> list[MemoryItem]:
        """Return the last items of an order; mem0 promises none, so all of them are looked through."""
        key = event_key if order is Order.EVENT else lambda item: (item.created_at, 0.0)
        first = max(offset, 0)
        return heapq.nlargest(first + max(limit, 0), self.get_all(where), key=key)[first:]

    def _delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        if ids is None:
            return self._remove_records([record_id for record_id, _ in self._listed(where, "delete")])
        return self._remove_records([record.id for record in map(self._record_of, ids) if record is not None])

    def select_erasable(self, request: EraseRequest) -> list[MemoryItem]:
        """Return the items that are selected to be erased, those that wait in the outbox included.

        Raises:
            Mem0Error: neither the selection nor the configuration says whose memories are meant.
        """
        if request.ids is not None and not self._can_list(request.where.scope):
            found: Iterable[MemoryItem] = self.get([one for one in request.ids if is_mem0_id(one)])
        else:
            found = self.get_all(request.where)
        return [item for item in (*found, *self._waiting()) if request.admits(item)]

    def derived_from(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that were derived from some items, of those that the configuration's ids find."""
        listed = self.get_all() if self._can_list(Scope()) else ()
        return descendants([*listed, *self._waiting()], ids)

    def _waiting(self) -> list[MemoryItem]:
        """Return the items that the writes in the outbox would become, under the writes' keys."""
        writes = (entry.value for entry in self._outbox.entries(refused=True)) if self._outbox is not None else ()
        items: list[MemoryItem] = []
        for write in writes:
            raw = {"id": write.key, "memory": write.text, "metadata": write.metadata, **write.ids.given()}
            items.append(replace(to_item(Record.model_validate(raw)), id=write.key))
        return items

    def erase_selected(
        self,
        request: EraseRequest,
        derived: Sequence[str] = (),
        *,
        words: Sequence[str] = (),  # noqa: ARG002 - where mem0 keeps its files, it keeps them in formats of its own
        vacuum: bool = False,  # noqa: ARG002
    ) -> EraseResult:
        """Erase items as far as mem0 does, and what waits in the outbox down to the bytes."""
        ids = {*(item.id for item in self.select_erasable(request)), *derived}
        waiting, left = 0, list[Residue]()
        if self._outbox is not None:
            # First, so that nothing is sent that was to be forgotten.
            waiting, left = self._outbox.remove(ids), self._outbox.rewrite()
        if request.is_everything:
            erased = self.clear()
        elif self._can_list(request.where.scope):
            # In as few requests as the filter allows.
            found = self._listed(Filter(scope=request.where.scope), "delete")
            erased = self._remove_records([record_id for record_id, item in found if item.id in ids])
        else:
            erased = self._delete([one for one in ids if is_mem0_id(one)], None)
        place = self.backend.location
        left.append(Residue(place=place, reason="what mem0 keeps in its history, logs and backups is out of reach"))
        return EraseResult(items=waiting + erased, residues=tuple(left))

    def files(self) -> list[Path]:
        """Return the outbox, and the folder of a mem0 in this process."""
        session = self.setup.session_dir
        folders = [session / "mem0" / quote(self.name, safe="")] if session is not None else []
        return [*folders, *([self._outbox.file] if self._outbox and self._outbox.file else [])]

    def clear(self) -> int:
        """Forget everything that this store can find, whoever wrote it, in one request for each id."""
        ids = find_ids(self.config, Scope(), "", operation="delete all")
        count = self._page(ids, 1).total
        for owner in ids.alternatives():
            self._retrier.call("delete all", partial(self.backend.delete_all, owner))
        return count

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:
        """Forget all but the newest items, and those that are too old."""
        newest = sorted(self._listed(None, "trim"), key=lambda pair: -pair[1].created_at)
        surplus = newest if keep is None else newest[:keep]
        oldest = -math.inf if stored_before is None else stored_before
        kept = {record_id for record_id, item in surplus if item.created_at >= oldest}
        return self._remove_records([record_id for record_id, _ in newest if record_id not in kept])

    def count(self, where: Filter | None = None) -> int:
        """Count the items."""
        if where is None or _own_filter(where, self.config).everything():
            return self._page(find_ids(self.config, Scope(), "", operation="count"), 1).total
        return sum(1 for _ in self._listed(where, "count"))

    def info(self) -> CollectionInfo:
        """Describe the memories; `waiting` counts the writes in the outbox."""
        return CollectionInfo(
            location=self.backend.location,
            items=self.count(),
            waiting=self.unsent,
            size_bytes=0,
            embedding=None,
            dimension=None,
        )

    def close(self) -> None:
        """Release the connections and the outbox."""
        with self._opening:
            self._closed = True
            if self._opened is not None:
                self._opened.close()
                self._opened = None
        if self._outbox is not None:
            self._outbox.close()
