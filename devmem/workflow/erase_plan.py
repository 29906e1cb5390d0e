"""Planning what is forgotten in several stores: the selection, its copies, and what was derived from any of it."""

from __future__ import annotations

import glob
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from devmem.errors import DevmemError
from devmem.model.interactions import Interaction
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import html_table
from devmem.recording.forwarder import REFUSED, refused_lock, waiting_records
from devmem.recording.journal import abandoned_journals
from devmem.recording.log import InteractionStore
from devmem.storage.erasure import EraseRequest, Residue
from devmem.storage.outbox import Outbox
from devmem.storage.searching import ExportRecord
from devmem.stores.forgetting import RECEIPT_COLUMNS, ForgetReceipt
from devmem.stores.memory import MemoryBase, StoreSetup
from devmem.text.files import replace_file
from devmem.workflow.rescue import file_stem, load_payload


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
    journals: Path | None = None
    """Folder of the journals in which its records wait."""

    @property
    def label(self) -> str:
        """Name for messages."""
        return f"{self.setup.name} (session {self.session})" if self.session else self.setup.name


_RESCUED: Final = "unsaved-*"
"""Pattern of the files in which writes are that no store took."""
_BATCH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWrites:
    """Writes in a file that are to be forgotten."""

    file: Path
    checksums: tuple[str, ...]
    """Of their lines."""


def checksum_of(line: str) -> str:
    """Return the checksum by which a line is found again."""
    return hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()


def rescued_files(folder: Path) -> list[Path]:
    """Return the files of rescued writes in a session's folder."""
    return sorted(file for file in folder.glob(_RESCUED) if file.suffix in (".db", ".jsonl")) if folder.is_dir() else []


def temporary_rescues(stores: Iterable[str]) -> list[Path]:
    """Return the rescued writes to stores that found no place but the machine's folder for temporary files."""
    folder = Path(tempfile.gettempdir())
    stems = {file_stem(store) for store in stores}
    return sorted(file for stem in stems for file in folder.glob(f"unsaved-{glob.escape(stem)}-*.jsonl"))


def find_rescued(file: Path, erasing: EraseRequest) -> WaitingWrites:
    """Return the rescued writes of a file that are selected.

    Raises:
        DevmemError, OSError: the file cannot be read.
    """
    return _selected(file, lambda line: (_item_of_write(line),), erasing)


def find_refused(folder: Path, erasing: EraseRequest) -> WaitingWrites:
    """Return the records, in a folder of journals, that the store refused and that are selected.

    Raises:
        OSError: the file cannot be read.
    """
    return _selected(folder / REFUSED, _items_of_record, erasing)


def _selected(file: Path, read: Callable[[str], tuple[MemoryItem, ...]], erasing: EraseRequest) -> WaitingWrites:
    def is_selected(line: str) -> bool:
        try:
            return any(erasing.admits(item) for item in read(line))
        except (ValueError, KeyError, TypeError):
            # What cannot be read is nobody's: it is found in the file afterwards if it has a word of theirs.
            return False

    return WaitingWrites(file=file, checksums=tuple(checksum_of(line) for line in _lines(file) if is_selected(line)))


def _lines(file: Path) -> Iterator[str]:
    if not file.exists():
        return
    if file.suffix == ".db":
        with closing(_raw_outbox(file)) as outbox:
            yield from [entry.value for entry in outbox.entries(rejected=True)]
    else:
        yield from file.read_bytes().decode("utf-8", "surrogateescape").splitlines()


def _raw_outbox(file: Path) -> Outbox[str]:
    return Outbox(file, dump=str, load=str)


def _item_of_write(line: str) -> MemoryItem:
    """Return an item by which a rescued write is selected."""
    payload = load_payload(json.loads(line)["payload"])
    said = [payload.inputs_text, payload.output_text()]
    return MemoryItem(
        id="",
        content_summary="\n".join(text for text in said if text),
        metadata=payload.metadata,
        scope=payload.scope,
        event_time=payload.event_time,
        trust=payload.trust,
    )


def _items_of_record(line: str) -> tuple[MemoryItem, ...]:
    """Return the items by which a refused record is selected: it is of both of its sides."""
    record = Interaction.from_json(json.loads(line))
    return tuple(
        MemoryItem(
            id=record.id,
            content_summary=record.content,
            scope=Scope(
                user=record.user, agent=agent, conversation=record.conversation or None, trace=record.trace or None
            ),
            event_time=record.event_time,
        )
        for agent in (record.source.name, record.target.name)
    )


def remove_waiting(file: Path, checksums: set[str]) -> list[Residue]:
    """Remove writes from a file by the checksums of their lines; return what could not be reached.

    Raises:
        DevmemError, OSError: the file cannot be changed.
    """
    if not file.exists():
        return []
    if file.suffix == ".db":
        with closing(_raw_outbox(file)) as outbox:
            gone = [entry.key for entry in outbox.entries(rejected=True) if checksum_of(entry.value) in checksums]
            outbox.remove(gone)
            return outbox.scrub()
    with refused_lock(file.parent) if file.name == REFUSED else nullcontext():
        _remove_lines(file, checksums)
    return []


def _remove_lines(file: Path, checksums: set[str]) -> None:
    kept = [line for line in _lines(file) if checksum_of(line) not in checksums]
    if kept:
        replace_file(file, [f"{line}\n".encode("utf-8", "surrogateescape") for line in kept])
    else:
        file.unlink(missing_ok=True)


def settle_journals(store: InteractionStore, folder: Path) -> list[Residue]:
    """Store what waits in the journals of processes that are gone; return the journals that are left.

    What a living process still writes is its own: it moves the records into the store itself.
    """
    if not folder.is_dir():
        return []
    try:
        for journal in abandoned_journals(folder):
            while (batch := journal.next_batch(_BATCH)) is not None:
                store.record([Interaction.from_row(row) for row in batch.records])
                journal.acknowledge(batch.end)
    except (DevmemError, OSError, ValueError) as error:
        return [Residue(place=str(folder), reason=f"records wait that the store does not take: {error}", failed=True)]
    return [
        Residue(place=str(journal.path), reason="a running process writes it, and removes it when it ends")
        for journal in waiting_records(folder).journals
        if journal.in_use
    ]


@dataclass(slots=True, kw_only=True)
class TargetPlan:
    """Items of one store that are to be forgotten."""

    target: Target
    items: dict[str, MemoryItem] = field(default_factory=dict)
    """By id; those of which only earlier versions are left are among them."""
    derived: list[str] = field(default_factory=list)
    """Ids of those that were not selected themselves: copies, and what was derived."""
    is_usable: bool = False
    """Whether the store could be looked into."""

    def take(self, items: Iterable[MemoryItem], *, derived: bool) -> list[MemoryItem]:
        """Add items; return those that are new."""
        fresh = [item for item in items if item.id not in self.items]
        self.items.update((item.id, item) for item in fresh)
        self.derived += [item.id for item in fresh] if derived else []
        return fresh


@dataclass(slots=True, kw_only=True)
class ForgettingPlan:
    """Everything that is to be forgotten."""

    targets: list[TargetPlan]
    waiting: list[WaitingWrites] = field(default_factory=list)
    unreached: list[Residue] = field(default_factory=list)
    """Places that could not be looked into."""

    @property
    def items(self) -> list[MemoryItem]:
        """Every item of every store."""
        return [item for plan in self.targets for item in plan.items.values()]

    @property
    def writes(self) -> int:
        """Number of writes that no store has yet."""
        return sum(len(each.checksums) for each in self.waiting)


def plan_forgetting(targets: Sequence[Target], erasing: EraseRequest, folders: Sequence[Path]) -> ForgettingPlan:
    """Return what is forgotten with a selection; a store that cannot be opened is named, and the others are planned.

    Args:
        targets: the stores.
        erasing: the selection.
        folders: folders of sessions, in which rescued writes are.
    """
    plan = ForgettingPlan(targets=[TargetPlan(target=target) for target in targets])
    reached = [item for each in plan.targets for item in _select(plan, each, erasing)]
    while reached:
        reached = [item for each in plan.targets for item in _follow(plan, each, reached)]
    _find_waiting(plan, erasing, folders)
    return plan


def _select(plan: ForgettingPlan, each: TargetPlan, erasing: EraseRequest) -> list[MemoryItem]:
    try:
        with each.target.open() as store:
            found = each.take(store.select_erasable(erasing), derived=False)
    except DevmemError as error:
        plan.unreached.append(Residue(place=each.target.label, reason=f"it cannot be used: {error}", failed=True))
        return []
    each.is_usable = True
    return found


def _follow(plan: ForgettingPlan, each: TargetPlan, reached: Sequence[MemoryItem]) -> list[MemoryItem]:
    """Add what a store has of copies of some items, and of what was derived from them."""
    if not each.is_usable:
        return []
    try:
        with each.target.open() as store:
            found = [*_copies(store, reached), *store.derived_from([item.id for item in reached])]
            return each.take(found, derived=True)
    except DevmemError as error:
        plan.unreached.append(
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


def _find_waiting(plan: ForgettingPlan, erasing: EraseRequest, folders: Sequence[Path]) -> None:
    journals = dict.fromkeys(each.target.journals for each in plan.targets if each.target.journals is not None)
    looks = [(file, find_rescued) for folder in folders for file in rescued_files(folder)]
    for place, find in [*looks, *((folder, find_refused) for folder in journals)]:
        try:
            found = find(place, erasing)
        except (DevmemError, OSError) as error:
            plan.unreached.append(Residue(place=str(place), reason=f"it cannot be read: {error}", failed=True))
        else:
            plan.waiting += [found] if found.checksums else []
    _find_temporary(plan, erasing)


def _find_temporary(plan: ForgettingPlan, erasing: EraseRequest) -> None:
    """Name the files of selected writes in the machine's folder for temporary files, where any workflow's are."""
    for file in temporary_rescues(each.target.setup.name for each in plan.targets):
        try:
            count = len(find_rescued(file, erasing).checksums)
        except (DevmemError, OSError) as error:
            plan.unreached.append(Residue(place=str(file), reason=f"it cannot be read: {error}", failed=True))
            continue
        if count:
            reason = f"{count:,} selected writes, maybe of another workflow; `devmem import` reads it, then delete it"
            plan.unreached.append(Residue(place=str(file), reason=reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowReceipt:
    """Receipt of a forgetting in every store of a workflow, or of a dry run."""

    stores: tuple[ForgetReceipt, ...] = ()
    """Of each store that had something to forget."""
    writes: int = 0
    """Number of writes that no store had yet."""
    reached: tuple[str, ...] = ()
    """Files, beside those of the stores' own receipts, that were searched and hold nothing of the items."""
    unreached: tuple[Residue, ...] = ()
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
        return (*(left for receipt in self.stores for left in receipt.unreached), *self.unreached)

    def _repr_html_(self) -> str:
        own = ForgetReceipt(store="(waiting writes)", items=self.writes, reached=self.reached, unreached=self.unreached)
        return html_table(RECEIPT_COLUMNS, [*(receipt.cells() for receipt in self.stores), own.cells()])
