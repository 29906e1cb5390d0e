"""Erasing from every store of a workflow: selected over all of them, decided durably, executed, or recovered later.

A selection has the items that were asked for, their copies in other stores, items that were derived from any of it, and
writes that wait for a store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from devmem.errors import DevmemError, NoTombstonesError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import html_table
from devmem.storage.connections import is_in_rows, tables_of
from devmem.storage.erasure import EraseRequest, EraseResult, Residue, search_files, words_of
from devmem.storage.pending import STATE_FILE
from devmem.storage.protocol import ExportRecord
from devmem.stores import erasing
from devmem.stores.abilities import exports_of, tombstones_of
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.commit_log import EraseRecord, decide_erasure, erase_records
from devmem.stores.erasing import RECEIPT_COLUMNS, EraseSelection, ForgetReceipt, receipt_of
from devmem.stores.memory import MemoryBase, StoreSetup
from devmem.workflow.waiting import WaitingParts, find_shown, find_waiting, remove_parts, temporary_writes

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A store of a workflow, in one session."""

    setup: StoreSetup
    session: str = ""
    """Session whose files it has, for messages; empty for the usual one."""
    open: Callable[[], AbstractContextManager[MemoryBase]]
    """Opens the store for a `with` block; one that is open already stays open."""
    files: tuple[Path, ...] = ()
    """Files and folders that the store keeps."""
    is_elsewhere: bool = False
    """Whether its items are in a server or behind a service, which other machines may use too."""
    records: tuple[Path, str] | None = None
    """File in which its records wait, and the name under which they do."""

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.setup.name} (session {self.session})" if self.session else self.setup.name


@dataclass(slots=True, kw_only=True)
class TargetSelection(EraseSelection):
    """Items of one store of the workflow that are to be erased."""

    target: Target
    is_usable: bool = False
    """Whether the store could be looked into."""


@dataclass(slots=True, kw_only=True)
class WorkflowSelection:
    """Everything that is to be erased."""

    targets: list[TargetSelection]
    waiting: list[WaitingParts] = field(default_factory=list)
    shown: list[WaitingParts] = field(default_factory=list)
    residues: list[Residue] = field(default_factory=list)
    """Places that could not be looked into."""

    @property
    def items(self) -> list[MemoryItem]:
        """Every item of every store."""
        return [item for each in self.targets for item in each.items]

    @property
    def parts_shown(self) -> int:
        """Number of parts of logs."""
        return sum(len(each.names) for each in self.shown)

    @property
    def writes(self) -> int:
        """Number of writes and records that no store has yet."""
        return sum(len(each.names) for each in self.waiting)


def select_erasure(targets: Sequence[Target], request: EraseRequest, folders: Sequence[Path]) -> WorkflowSelection:
    """Return what a request selects; a store that cannot be opened is named, and the others are looked into.

    Args:
        targets: the stores.
        request: the items.
        folders: folders of sessions, in whose state writes wait.
    """
    selection = WorkflowSelection(targets=[TargetSelection(request=request, target=target) for target in targets])
    reached = [item for each in selection.targets for item in _select(selection, each, request)]
    while reached:
        reached = [item for each in selection.targets for item in _follow(selection, each, reached)]
    _find_waiting(selection, request, folders)
    return selection


def _select(selection: WorkflowSelection, each: TargetSelection, request: EraseRequest) -> list[MemoryItem]:
    try:
        with each.target.open() as store:
            found = each.take(store.select_erasable(request), derived=False)
    except DevmemError as error:
        selection.residues.append(Residue(place=each.target.label, reason=f"it cannot be used: {error}", failed=True))
        return []
    each.is_usable = True
    return found


def _follow(selection: WorkflowSelection, each: TargetSelection, reached: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Add what a store has of copies of some items, and of what was derived from them."""
    if not each.is_usable:
        return []
    try:
        with each.target.open() as store:
            found = [*_copies(store, reached), *store.derived_from([item.id for item in reached])]
            return each.take(found, derived=True)
    except DevmemError as error:
        selection.residues.append(
            Residue(place=each.target.label, reason=f"copies cannot be looked for: {error}", failed=True)
        )
        return []


def _copies(store: MemoryBase, items: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Return a store's items that are copies of others: of the same id, and of the same user."""
    owners: dict[str, set[str | None]] = {}
    for item in items:
        owners.setdefault(item.id, set()).add(item.scope.user)
    found = store.select_erasable(EraseRequest(ids=tuple(owners)))
    return [item for item in found if item.scope.user in owners[item.id]]


def _find_waiting(selection: WorkflowSelection, request: EraseRequest, folders: Sequence[Path]) -> None:
    states = [folder / STATE_FILE for folder in folders]
    beside = [each.target.records[0] for each in selection.targets if each.target.records is not None]
    for file in dict.fromkeys([*states, *beside]):
        try:
            parts = [find_waiting(file, request)]
            parts += [find_shown(file, request, selection.items)] if file in states else []
        except DevmemError as error:
            selection.residues.append(Residue(place=str(file), reason=f"it cannot be read: {error}", failed=True))
            continue
        for each in parts:
            if each.names:
                (selection.waiting if each.kind == "pending" else selection.shown).append(each)
    # Those in the machine's folder for temporary files may be any workflow's.
    for file in temporary_writes():
        try:
            count = len(find_waiting(file, request).names)
        except DevmemError as error:
            selection.residues.append(Residue(place=str(file), reason=f"it cannot be read: {error}", failed=True))
            continue
        if count:
            reason = f"{count:,} selected writes, maybe of another workflow; `devmem import` reads it, then delete it"
            selection.residues.append(Residue(place=str(file), reason=reason))


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


def preview(selection: WorkflowSelection) -> WorkflowReceipt:
    """Return the receipt of a dry run; nothing is changed."""
    receipts: list[ForgetReceipt] = []
    for each in selection.targets:
        if each.found:
            with each.target.open() as store:
                receipts.append(erasing.preview(store, each, label=each.target.label))
    return WorkflowReceipt(
        stores=tuple(receipts), writes=selection.writes, shown=selection.parts_shown, residues=tuple(selection.residues)
    )


def execute(
    selection: WorkflowSelection, decisions: Path, files: Iterable[Path], *, search: bool = True, vacuum: bool = False
) -> WorkflowReceipt:
    """Erase the selected items and writes in every place, or, if that cannot be decided, nothing; return the receipt.

    Args:
        selection: what is erased.
        decisions: file in which the decision is kept until everything is done.
        files: files and folders that are searched afterwards, beside those of the stores.
        search: look for what was erased in the files.
        vacuum: rewrite databases even if nothing is found in them.

    Raises:
        OutboxError, OSError: the decision cannot be written; nothing is erased.
    """
    chosen = [each for each in selection.targets if each.found]
    words = words_of(selection.items) if search else []
    parts = [
        EraseRecord(kind=each.kind, place=str(each.file), names=each.names)
        for each in (*selection.waiting, *selection.shown)
    ]
    with decide_erasure(decisions, [*map(_record_of, chosen), *parts]) as records:
        # Every database knows what is decided before the first one changes.
        decided = [(each, record, _announce(each, record)) for each, record in zip(chosen, records, strict=False)]
        receipts = [_erase(each, record, words, count, vacuum=vacuum) for each, record, count in decided]
        left = [residue for record in records[len(chosen) :] for residue in _erase_parts(record)]
    reached, found = _search(selection, files, receipts, words) if words else ([], [])
    return WorkflowReceipt(
        stores=tuple(receipts),
        writes=selection.writes,
        shown=selection.parts_shown,
        reached=tuple(reached),
        residues=(*selection.residues, *left, *found),
    )


def _record_of(each: TargetSelection) -> EraseRecord:
    users = {item.scope.user for item in each.items}
    user = users.pop() if len(users) == 1 else None
    tombstone = each.request.tombstone
    return EraseRecord.of_store(each.target.setup, list(each.found), user=user, tombstone=tombstone)


def _announce(each: TargetSelection, record: EraseRecord) -> int:
    """Record the erasure in the database of a store that other machines open too; return the number of its items."""
    if not each.target.is_elsewhere:
        return 0
    try:
        with each.target.open() as store:
            return store.begin_erasure(_request(store, record))
    except (DevmemError, OSError) as error:
        # It is decided all the same; where the database cannot be used, the receipt names it.
        _LOG.warning("%s: only this machine knows what is to be forgotten: %s", each.target.label, error)
        return 0


def _erase(
    each: TargetSelection, record: EraseRecord, words: Sequence[str], count: int, *, vacuum: bool
) -> ForgetReceipt:
    """Erase the items of one store; return its receipt.

    Another machine that opened the store meanwhile may have erased some of the `count` items that were there.
    """
    label = each.target.label
    try:
        with each.target.open() as store:
            exports = exports_of(store, each.items)
            done = store.erase_selected(_request(store, record), words=words, vacuum=vacuum)
            without = _without_tombstones(store, record)
        record.done()
    except (DevmemError, OSError) as error:
        reason = f"it is decided, and is done when the store is next opened or forgotten from: {error}"
        failed = EraseResult(residues=(Residue(place=label, reason=reason, failed=True),))
        return receipt_of(each, failed, (), label=label)
    done = replace(done, items=max(done.items, count), residues=(*done.residues, *without))
    return receipt_of(each, done, exports, label=label)


def _without_tombstones(store: MemoryBase, record: EraseRecord) -> list[Residue]:
    """Name a store that keeps no tombstones although they are asked for."""
    if record.tombstone:
        try:
            tombstones_of(store)
        except NoTombstonesError as error:
            return [Residue(place=store.name, reason=f"what was forgotten may be stored again: {error}")]
    return []


def _request(store: MemoryBase, record: EraseRecord) -> EraseRequest:
    # A store in front of a service lists by user; where items are found by id, their users make no difference.
    where = Filter() if isinstance(store, CollectionMemory) else Filter(scope=Scope(user=record.user))
    return EraseRequest(ids=record.names, where=where, tombstone=record.tombstone)


def _erase_parts(record: EraseRecord) -> list[Residue]:
    """Remove what waits, or was shown, from its file."""
    try:
        left = remove_parts(record.kind, Path(record.place), record.names)
        record.done()
    except (DevmemError, OSError) as error:
        reason = f"it is decided, and is done with the next forgetting: {error}"
        return [Residue(place=record.place, reason=reason, failed=True)]
    return left


_SHARED: Final = "-shm"
"""End of the name of a file that SQLite's connections share, which holds no content."""


def _search(
    selection: WorkflowSelection, files: Iterable[Path], receipts: Sequence[ForgetReceipt], words: Sequence[str]
) -> tuple[list[str], list[Residue]]:
    """Look for words in the files that the stores' own receipts do not name; those of unusable stores say nothing."""
    searched = {place for one in receipts for place in (*one.reached, *(left.place for left in one.residues))}
    own = [file for each in selection.targets if each.is_usable for file in each.target.files]
    unusable = files_below(file for each in selection.targets if not each.is_usable for file in each.target.files)
    searched.update(map(str, unusable))
    rest = [file for file in files_below([*own, *files]) if str(file) not in searched]
    return search_rest([file for file in rest if not file.name.endswith(_SHARED)], words)


def files_below(places: Iterable[Path]) -> list[Path]:
    """Return the files among some places, and those in the folders among them, each once."""

    def listed(place: Path) -> Iterator[Path]:
        if place.is_dir():
            yield from (file for file in sorted(place.rglob("*")) if file.is_file())
        elif place.exists():
            yield place

    return list(dict.fromkeys(file for place in places for file in listed(place)))


def search_rest(files: Sequence[Path], words: Sequence[str]) -> tuple[list[str], list[Residue]]:
    """Look for words in files; return the files without any, and those with some.

    A word that is in a row of one of the databases belongs to what remains, and says nothing.
    """
    databases = [file for file in files if tables_of(file)]
    known: dict[str, bool] = {}

    def remains(word: str) -> bool:
        if word not in known:
            known[word] = any(is_in_rows(file, word) for file in databases)
        return known[word]

    return search_files(files, words, remains)


def recover(decisions: Path, targets: Sequence[Target]) -> list[Residue]:
    """Finish the erasures for which earlier processes had decided; return the places where that is impossible still."""
    left: list[Residue] = []
    for record in erase_records(decisions):
        target = next((each for each in targets if record.belongs_to(each.setup)), None)
        if record.kind != "store":
            left += _erase_parts(record)
        elif target is None:
            reason = "it was decided, and the store is declared no more"
            left.append(Residue(place=record.place, reason=reason, failed=True))
        else:
            left += _recover_store(target, record)
    return left


def _recover_store(target: Target, record: EraseRecord) -> list[Residue]:
    try:
        with target.open() as store:
            store.erase_selected(_request(store, record), vacuum=True)
            record.done()
    except (DevmemError, OSError) as error:
        reason = f"it was decided earlier, and cannot be done: {error}"
        return [Residue(place=target.label, reason=reason, failed=True)]
    return []


def _kept_open(store: MemoryBase) -> AbstractContextManager[MemoryBase]:
    return nullcontext(store)


def recover_open(records: Iterable[EraseRecord], stores: Mapping[str, MemoryBase]) -> None:
    """Finish earlier erasures in stores that are open, by name; what is impossible is logged and stays decided.

    `records` are what `erase_records` returned. Stores on collections do theirs when they are loaded.
    """
    for record in records:
        store = stores.get(record.place)
        if record.kind != "store":
            left = _erase_parts(record)
        elif store is not None and record.belongs_to(store.setup):
            left = _recover_store(Target(setup=store.setup, open=partial(_kept_open, store)), record)
        else:
            continue
        for residue in left:
            _LOG.error("%s: %s", residue.place, residue.reason)
