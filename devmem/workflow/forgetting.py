"""Forgetting in every store of a workflow, in all of its sessions, and in the files beside them.

What goes is selected over all of them, decided durably, executed, or finished later: the items that were asked for,
their copies in other stores, items that were derived from any of it, and what waits for a store or was shown.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from devmem.config.workflow import Workflow
from devmem.errors import DevmemError, NoTombstonesError, UnknownSessionError
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.interactions import Interaction
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import html_table
from devmem.recording.forwarder import records_in, send_records
from devmem.recording.log import InteractionLog
from devmem.storage.connections import is_in_rows, tables_of
from devmem.storage.erasure import EraseRequest, EraseResult, Residue, search_files, words_of
from devmem.storage.opening import file_of
from devmem.storage.pending import RECORD, STATE_FILE, WRITE, PendingRow, pending_rows, remove_rows
from devmem.storage.protocol import ExportRecord
from devmem.storage.recall_log import RecallLog
from devmem.stores import erasing
from devmem.stores.abilities import exports_of, tombstones_of
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.commit_log import EraseRecord, decide_erasure, erase_records, erasures_file
from devmem.stores.config import PlaceConfig
from devmem.stores.erasing import RECEIPT_COLUMNS, EraseSelection, ForgetReceipt, receipt_of
from devmem.stores.memory import MemoryBase, StoreSetup
from devmem.workflow.rescue import TEMPORARY, read_write
from devmem.workflow.stores import load_store, location_of, make_store, records_of, session_folder, session_names

_LOG: Final = logging.getLogger(__name__)
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that sends records."""
_SHARED: Final = "-shm"
"""End of the name of a file that SQLite's connections share, which holds no content."""
_DECIDED_EARLIER: Final = "it was decided earlier, and cannot be done"
_NONE: Final[Mapping[str, MemoryBase]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStore:
    """A store of a workflow, in one session."""

    setup: StoreSetup
    session: str
    is_usual: bool
    """Whether the session is the usual one, which messages leave out."""
    files: tuple[Path, ...]
    """Files and folders that the store keeps."""
    is_elsewhere: bool
    """Whether its items are in a server or behind a service, which other machines may use too."""
    records: tuple[Path, str] | None
    """File in which its records wait, and the name under which they do."""

    @property
    def label(self) -> str:
        """Name for messages."""
        return self.setup.name if self.is_usual else f"{self.setup.name} (session {self.session})"


@dataclass(slots=True, kw_only=True)
class TargetSelection(EraseSelection):
    """Items of one store of the workflow that are to be erased."""

    target: SessionStore
    is_usable: bool = False
    """Whether the store could be looked into."""


@dataclass(slots=True, kw_only=True)
class WorkflowSelection:
    """Everything that is to be erased."""

    targets: list[TargetSelection]
    parts: list[EraseRecord] = field(default_factory=list)
    """Work that waits in files of state, and parts of the logs of what agents were shown."""
    residues: list[Residue] = field(default_factory=list)
    """Places that could not be looked into."""

    @property
    def items(self) -> list[MemoryItem]:
        """Every item of every store."""
        return [item for each in self.targets for item in each.items]

    @property
    def writes(self) -> int:
        """Number of writes and records that no store has yet."""
        return sum(len(each.names) for each in self.parts if each.kind == "pending")

    @property
    def shown(self) -> int:
        """Number of parts of the logs of what agents were shown: entries, queries, steps."""
        return sum(len(each.names) for each in self.parts if each.kind == "recalls")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowReceipt:
    """Receipt of a forgetting in every store of a workflow, or of a dry run."""

    stores: tuple[ForgetReceipt, ...] = ()
    """Of each store that had something to forget."""
    writes: int = 0
    """Number of writes that no store had yet."""
    shown: int = 0
    """Number of parts of the logs of what agents were shown: entries, queries, steps."""
    reached: tuple[str, ...] = ()
    """Files, beside those of the stores' own receipts, that were searched and hold nothing of the items."""
    residues: tuple[Residue, ...] = ()
    """Places, beside those of the stores' own receipts, that still hold something or could not be searched."""

    @property
    def items(self) -> int:
        """Number of items, derived ones and copies included."""
        return sum(receipt.items for receipt in self.stores)

    @property
    def exports(self) -> tuple[ExportRecord, ...]:
        """Exports and backups that were made before and may hold some of the items; they are not reached."""
        return tuple(dict.fromkeys(export for receipt in self.stores for export in receipt.exports))

    @property
    def left(self) -> tuple[Residue, ...]:
        """Every place that was not reached, without exports."""
        return (*(left for receipt in self.stores for left in receipt.residues), *self.residues)

    def _repr_html_(self) -> str:
        own = ForgetReceipt(store="(waiting writes)", items=self.writes, reached=self.reached, residues=self.residues)
        return html_table(RECEIPT_COLUMNS, [*(receipt.cells() for receipt in self.stores), own.cells()])


@contextmanager
def _noted(residues: list[Residue], place: str | Path, reason: str) -> Iterator[None]:
    """Name a place in which the block could not do its part; the other places are gone on with."""
    try:
        yield
    except (DevmemError, OSError) as error:
        residues.append(Residue(place=str(place), reason=f"{reason}: {error}", failed=True))


class WorkflowForgetting:
    """A forgetting over the stores of a workflow: selected, then previewed or executed.

    Stores are opened when they are needed, and closed at the end of the `with` block; those of the caller stay open.
    """

    def __init__(
        self,
        workflow: Workflow,
        *,
        session: str | None = None,
        stores: Mapping[str, MemoryBase] = _NONE,
    ) -> None:
        """Find the stores; nothing is opened yet.

        Args:
            workflow: declares the stores.
            session: the only session whose files are meant; None means all of them.
            stores: stores that are open already, by name, such as those of a runner; they are of `session`, or else of
                the usual one.

        Raises:
            SessionNameError: the session's name cannot be used.
            UnknownSessionError: there are no files of it, and none of its stores is open.
            ConfigError: a placeholder in the configuration of a store has no value.
            PluginError: the type of a store cannot be used.
        """
        self._workflow, self._given = workflow, stores
        self._usual = session or DEFAULT_SESSION
        folder = session_folder(workflow, self._usual)
        names = [name for name in session_names(folder.parent) if name != DEFAULT_SESSION]
        sessions = [DEFAULT_SESSION, *names]
        if self._usual not in sessions and not stores:
            raise UnknownSessionError(self._usual, sessions)
        self._sessions = sessions if session is None else [self._usual]
        self._folders = [session_folder(workflow, each) for each in self._sessions]
        self._decisions = erasures_file(workflow.base_dir)
        self._opened = ExitStack()
        self._kept: dict[str, MemoryBase] = {}
        self._targets = list(self._find_targets())

    def __enter__(self) -> WorkflowForgetting:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def select(self, request: EraseRequest, *, settle: bool = True) -> WorkflowSelection:
        """Return what is forgotten with a selection; a store that cannot be opened is named, others are looked into.

        With `settle`, what earlier processes had decided to forget is finished first, and the records that wait are
        stored, so that they are found. Without, as for a dry run, nothing is changed.
        """
        selection = WorkflowSelection(targets=[TargetSelection(request=request, target=one) for one in self._targets])
        left = selection.residues
        if settle:
            left += self._recover()
            for target in self._targets:
                left += self._store_records(target)
        reached: list[MemoryItem] = []
        for each in selection.targets:
            with _noted(left, each.target.label, "it cannot be used"), self._open(each.target) as store:
                reached += each.take(store.select_erasable(request), derived=False)
                each.is_usable = True
        while reached:
            fresh: list[MemoryItem] = []
            for each in (one for one in selection.targets if one.is_usable):
                with _noted(left, each.target.label, "copies cannot be looked for"), self._open(each.target) as store:
                    derived = store.derived_from([item.id for item in reached])
                    fresh += each.take([*_copies(store, reached), *derived], derived=True)
            reached = fresh
        self._select_parts(selection, request)
        return selection

    def _select_parts(self, selection: WorkflowSelection, request: EraseRequest) -> None:
        """Add what waits for stores, and what was shown; stores select their own deliveries."""
        left = selection.residues
        states = [folder / STATE_FILE for folder in self._folders]
        beside = [target.records[0] for target in self._targets if target.records is not None]
        for file in dict.fromkeys([*states, *beside]):
            with _noted(left, file, "it cannot be read"):
                names = _waiting(file, request)
                shown = RecallLog(file).select(request, selection.items) if file in states else ()
                selection.parts += [EraseRecord(kind="pending", place=str(file), names=names)] if names else []
                selection.parts += [EraseRecord(kind="recalls", place=str(file), names=shown)] if shown else []
        # Those in the machine's folder for temporary files may be any workflow's.
        for file in sorted(Path(tempfile.gettempdir()).glob(TEMPORARY)):
            with _noted(left, file, "it cannot be read"):
                if count := len(_waiting(file, request)):
                    reason = f"{count:,} selected writes, maybe of another workflow; `devmem import` reads it, "
                    left.append(Residue(place=str(file), reason=f"{reason}then delete it"))

    def preview(self, selection: WorkflowSelection) -> WorkflowReceipt:
        """Return the receipt of a dry run; nothing is changed."""
        receipts: list[ForgetReceipt] = []
        for each in (one for one in selection.targets if one.found):
            with self._open(each.target) as store:
                receipts.append(erasing.preview(store, each, label=each.target.label))
        return WorkflowReceipt(
            stores=tuple(receipts), writes=selection.writes, shown=selection.shown, residues=tuple(selection.residues)
        )

    def execute(self, selection: WorkflowSelection, *, search: bool = True, vacuum: bool = False) -> WorkflowReceipt:
        """Forget the selection in every place, or, if that cannot be decided, nothing; return the receipt.

        Args:
            selection: what is forgotten.
            search: look for it afterwards, in the files of the stores and the sessions.
            vacuum: rewrite databases even if nothing is found in them.

        Raises:
            OutboxError, OSError: the decision cannot be written; nothing is forgotten.
        """
        chosen = [each for each in selection.targets if each.found]
        words = words_of(selection.items) if search else []
        left: list[Residue] = []
        to_decide = list[EraseRecord]()
        for each in chosen:
            users = {item.scope.user for item in each.items}
            user = users.pop() if len(users) == 1 else None
            tombstone = each.request.tombstone
            to_decide.append(EraseRecord.of_store(each.target.setup, list(each.found), user=user, tombstone=tombstone))
        with decide_erasure(self._decisions, [*to_decide, *selection.parts]) as records:
            # Every database knows what is decided before the first one changes.
            decided = [(each, one, self._announce(each, one)) for each, one in zip(chosen, records, strict=False)]
            receipts = [self._erase(each, record, words, count, vacuum=vacuum) for each, record, count in decided]
            for record in records[len(chosen) :]:
                left += _erase_parts(record)
        reached, found = self._search(selection, receipts, words) if words else ([], [])
        return WorkflowReceipt(
            stores=tuple(receipts),
            writes=selection.writes,
            shown=selection.shown,
            reached=tuple(reached),
            residues=(*selection.residues, *left, *found),
        )

    def _announce(self, each: TargetSelection, record: EraseRecord) -> int:
        """Record the erasure in the database of a store that other machines open too; return its number of items."""
        if not each.target.is_elsewhere:
            return 0
        try:
            with self._open(each.target) as store:
                return store.begin_erasure(_request(store, record))
        except (DevmemError, OSError) as error:
            # It is decided all the same; where the database cannot be used, the receipt names it.
            _LOG.warning("%s: only this machine knows what is to be forgotten: %s", each.target.label, error)
            return 0

    def _erase(
        self, each: TargetSelection, record: EraseRecord, words: Sequence[str], count: int, *, vacuum: bool
    ) -> ForgetReceipt:
        """Erase the items of one store; return its receipt.

        Another machine that opened the store meanwhile may have erased some of the `count` items that were there.
        """
        left: list[Residue] = []
        done = EraseResult()
        exports: list[ExportRecord] = []
        reason = "it is decided, and is done when the store is next opened or forgotten from"
        with _noted(left, each.target.label, reason), self._open(each.target) as store:
            exports = exports_of(store, each.items)
            erased = store.erase_selected(_request(store, record), words=words, vacuum=vacuum)
            if record.tombstone:
                try:
                    tombstones_of(store)
                except NoTombstonesError as error:
                    kept_out = f"what was forgotten may be stored again: {error}"
                    left.append(Residue(place=store.name, reason=kept_out))
            record.done()
            done = replace(erased, items=max(erased.items, count))
        return receipt_of(each, replace(done, residues=(*done.residues, *left)), exports, label=each.target.label)

    def _search(
        self, selection: WorkflowSelection, receipts: Sequence[ForgetReceipt], words: Sequence[str]
    ) -> tuple[list[str], list[Residue]]:
        """Look for words in the files that the stores' own receipts do not name; those of unusable stores say nothing.

        A word that is in a row of one of the databases belongs to what remains, and says nothing either.
        """
        searched = {place for one in receipts for place in (*one.reached, *(left.place for left in one.residues))}
        unusable = [file for each in selection.targets if not each.is_usable for file in each.target.files]
        searched.update(map(str, _files_below(unusable)))
        own = [file for each in selection.targets if each.is_usable for file in each.target.files]
        records = [target.records[0] for target in self._targets if target.records is not None]
        places = _files_below([*own, *self._folders, *records])
        files = [file for file in places if str(file) not in searched and not file.name.endswith(_SHARED)]
        databases = [file for file in files if tables_of(file)]
        known: dict[str, bool] = {}

        def remains(word: str) -> bool:
            if word not in known:
                known[word] = any(is_in_rows(file, word) for file in databases)
            return known[word]

        return search_files(files, words, remains)

    def _recover(self) -> list[Residue]:
        """Finish the erasures for which earlier processes had decided; return the places where that is impossible."""
        left: list[Residue] = []
        for record in erase_records(self._decisions):
            target = next((each for each in self._targets if record.belongs_to(each.setup)), None)
            if record.kind != "store":
                left += _erase_parts(record)
            elif target is None:
                reason = "it was decided, and the store is declared no more"
                left.append(Residue(place=record.place, reason=reason, failed=True))
            else:
                with _noted(left, target.label, _DECIDED_EARLIER), self._open(target) as store:
                    _erase_decided(store, record)
        return left

    def _store_records(self, target: SessionStore) -> list[Residue]:
        """Store the records that wait for a store; return the file where some are left."""
        if target.records is None or not target.records[0].exists():
            return []
        file, name = target.records
        with self._open(target) as store:
            if not isinstance(store, InteractionLog):
                return []
            with closing(records_in(file, name)) as records:
                error = send_records(store, records, _PATIENCE)
        reason = f"records wait that the store does not take: {error}"
        return [] if error is None else [Residue(place=str(file), reason=reason, failed=True)]

    def _find_targets(self) -> Iterator[SessionStore]:
        known: set[Path] = set()
        for session in self._sessions:
            for declaration in self._workflow.memory:
                store = make_store(self._workflow, declaration.name, session=session)
                files = list(store.files())
                own = {file for file in files if file not in known or file.name == STATE_FILE}
                is_usual = session == self._usual
                is_wanted = is_usual and (declaration.name in self._given or _is_elsewhere(store))
                if is_wanted or any(file.exists() for file in own):
                    known |= own
                    records = records_of(store, session_folder(self._workflow, session))
                    yield SessionStore(
                        setup=store.setup,
                        session=session,
                        is_usual=is_usual,
                        files=tuple(files),
                        is_elsewhere=_is_elsewhere(store),
                        records=records if isinstance(store, InteractionLog) else None,
                    )
                store.close()

    def _open(self, target: SessionStore) -> AbstractContextManager[MemoryBase]:
        """Open a store for a `with` block; one of the usual session stays open, as one does that the caller opened."""
        name = target.setup.name
        if not target.is_usual:
            return self._made(name, target.session)
        if name in self._given:
            return nullcontext(self._given[name])
        if name not in self._kept:
            self._kept[name] = self._opened.enter_context(self._made(name, target.session))
        return nullcontext(self._kept[name])

    @contextmanager
    def _made(self, name: str, session: str) -> Iterator[MemoryBase]:
        with closing(make_store(self._workflow, name, session=session)) as store:
            if isinstance(store, CollectionMemory):
                # Neither the model is needed, nor what loading does beside opening, such as indexing files.
                store.search_by_words()
            else:
                load_store(store)
            yield store


def _copies(store: MemoryBase, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return a store's items that are copies of others: of the same id, and of the same user."""
    owners: dict[str, set[str | None]] = {}
    for item in items:
        owners.setdefault(item.id, set()).add(item.scope.user)
    found = store.select_erasable(EraseRequest(ids=tuple(owners)))
    return [item for item in found if item.scope.user in owners[item.id]]


def _is_elsewhere(store: MemoryBase) -> bool:
    """Whether a store's items are in a server or behind a service, where no file shows whether there are any."""
    place = location_of(store)
    return not isinstance(store.setup.config, PlaceConfig) or (place is not None and file_of(place) is None)


def _files_below(places: Iterable[Path]) -> list[Path]:
    """Return the files among some places, and those in the folders among them, each once."""
    files: dict[Path, None] = {}
    for place in places:
        listed = sorted(place.rglob("*")) if place.is_dir() else [place]
        files.update(dict.fromkeys(file for file in listed if file.is_file()))
    return list(files)


def _waiting(file: Path, request: EraseRequest) -> tuple[str, ...]:
    """Return the numbers of the writes and the records in a file that are selected.

    Raises:
        DevmemError: the file cannot be read.
    """
    rows = pending_rows(file, WRITE, RECORD)
    return tuple(str(row.number) for row in rows if any(map(request.admits, _items_of(row))))


def _items_of(row: PendingRow) -> tuple[MemoryItem, ...]:
    """Return the items by which a row is selected; a record is of both of its sides."""
    try:
        if row.kind == WRITE:
            payload = read_write(row.payload)
            said = [payload.inputs_text, payload.output_text()]
            return (
                MemoryItem(
                    id="",
                    content_summary="\n".join(text for text in said if text),
                    metadata=payload.metadata,
                    scope=payload.scope,
                    event_time=payload.event_time,
                    trust=payload.trust,
                ),
            )
        record = Interaction.load(row.payload)
    except ValueError:
        # An unreadable row belongs to no user; the search of the files finds it if it has a word of the items.
        return ()
    conversation, trace = record.conversation or None, record.trace or None
    return tuple(
        MemoryItem(
            id=record.id,
            content_summary=record.content,
            scope=Scope(user=record.user, agent=agent, conversation=conversation, trace=trace),
            event_time=record.event_time,
        )
        for agent in (record.source.name, record.target.name)
    )


def _request(store: MemoryBase, record: EraseRecord) -> EraseRequest:
    # A store in front of a service lists by user; where items are found by id, their users make no difference.
    where = Filter() if isinstance(store, CollectionMemory) else Filter(scope=Scope(user=record.user))
    return EraseRequest(ids=record.names, where=where, tombstone=record.tombstone)


def _erase_parts(record: EraseRecord) -> list[Residue]:
    """Remove what waits, or was shown, from its file, down to the bytes; return what could not be reached."""
    left: list[Residue] = []
    with _noted(left, record.place, "it is decided, and is done with the next forgetting"):
        file = Path(record.place)
        if record.kind == "pending":
            found = remove_rows(file, map(int, record.names))
        else:
            with closing(RecallLog(file)) as log:
                found = log.remove(record.names)
        record.done()
        left += found
    return left


def _erase_decided(store: MemoryBase, record: EraseRecord) -> None:
    store.erase_selected(_request(store, record), vacuum=True)
    record.done()


def recover_open(records: Iterable[EraseRecord], stores: Mapping[str, MemoryBase]) -> None:
    """Finish earlier erasures in stores that are open, by name; what is impossible is logged and stays decided.

    `records` are what `erase_records` returned. Stores on collections do theirs when they are loaded.
    """
    for record in records:
        store = stores.get(record.place)
        left: list[Residue] = []
        if record.kind != "store":
            left = _erase_parts(record)
        elif store is not None and record.belongs_to(store.setup):
            with _noted(left, store.name, _DECIDED_EARLIER):
                _erase_decided(store, record)
        for residue in left:
            _LOG.error("%s: %s", residue.place, residue.reason)
