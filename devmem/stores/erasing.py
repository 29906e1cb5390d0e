"""Erasing from one store: selecting items and those derived from them, erasing them, a receipt."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from devmem.model.items import MemoryItem
from devmem.model.results import html_table
from devmem.model.versions import merged_ids
from devmem.storage.erasure import EraseRequest, EraseResult, Residue, words_of
from devmem.storage.protocol import ExportRecord
from devmem.storage.recall_log import forget_shown
from devmem.stores.abilities import exports_of, tombstones_of
from devmem.stores.archiving import archived_items
from devmem.stores.memory import MemoryBase


@dataclass(slots=True, kw_only=True)
class EraseSelection:
    """Items of one store that a request selects, and those derived from them."""

    request: EraseRequest
    found: dict[str, MemoryItem] = field(default_factory=dict)
    """The items by id; those of which only earlier versions are left are among them."""
    derived: list[str] = field(default_factory=list)
    """Ids of those that were not selected themselves: copies, and items that were derived."""
    kept: tuple[str, ...] = ()
    """Ids of derived items that stay, since they are out of reach."""

    @property
    def items(self) -> list[MemoryItem]:
        """Every item that is to be erased."""
        return list(self.found.values())

    @property
    def selected(self) -> list[MemoryItem]:
        """Items that were asked for."""
        derived = set(self.derived)
        return [item for item in self.items if item.id not in derived]

    def take(self, items: Iterable[MemoryItem], *, derived: bool) -> list[MemoryItem]:
        """Add items; return those that are new."""
        fresh = [item for item in items if item.id not in self.found]
        self.found.update((item.id, item) for item in fresh)
        self.derived += [item.id for item in fresh] if derived else []
        return fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """Receipt of a forgetting in one store, or of a dry run: how much it is, and how far it reached."""

    store: str
    items: int
    """Number of items, derived ones included; of those whose versions only were left none is counted."""
    derived: tuple[str, ...] = ()
    """Ids of the items that were forgotten because they were derived from others that were."""
    copies: tuple[str, ...] = ()
    """Ids of the items that were forgotten because their text is that of an item which was named by its id."""
    reached: tuple[str, ...] = ()
    """Files that were searched afterwards and hold nothing of the items."""
    residues: tuple[Residue, ...] = ()
    """Places that still hold something, or that could not be searched, with the reason."""
    exports: tuple[ExportRecord, ...] = ()
    """Exports and backups that were made before and may hold some of the items; they are not reached."""
    tombstones: int = 0
    """Number of texts that the store keeps out from now on."""

    def cells(self) -> tuple[object, ...]:
        """Return a row of a table, under `RECEIPT_COLUMNS`."""
        left = ", ".join(f"{one.place} ({one.reason})" for one in self.residues)
        exports = ", ".join(export.place or "printed" for export in self.exports)
        return self.store, self.items, len(self.derived), len(self.copies), ", ".join(self.reached), left, exports

    def _repr_html_(self) -> str:
        return html_table(RECEIPT_COLUMNS, [self.cells()])


RECEIPT_COLUMNS: Final = ("store", "items", "derived", "copies", "searched", "not reached", "exports")
"""Columns of a receipt in a notebook."""


def select_erasure(
    store: MemoryBase, request: EraseRequest, is_reached: Callable[[MemoryItem], bool] = lambda _: True
) -> EraseSelection:
    """Return what a request selects; derived items that are not reached stay."""
    selection = EraseSelection(request=request)
    selected = selection.take(store.select_erasable(request), derived=False)
    derived = store.derived_from([item.id for item in selected]) if selected else []
    selection.take([item for item in derived if is_reached(item)], derived=True)
    selection.kept = tuple(item.id for item in derived if not is_reached(item))
    # Of what a consolidation merged into some of these there are only earlier versions.
    named = {item_id for item in selection.items for item_id in merged_ids(item)}
    gone = named - {item.id for item in store.get(sorted(named))} if named else named
    if gone:
        selection.take(store.select_erasable(EraseRequest(ids=tuple(sorted(gone)))), derived=True)
    return selection


def preview(store: MemoryBase, selection: EraseSelection, *, label: str = "") -> ForgetReceipt:
    """Return the receipt of a dry run; `label` replaces the store's name."""
    ids = list(selection.found)
    there = EraseResult(items=len(store.get(ids)) + len(archived_items(store, ids)))
    return receipt_of(selection, there, exports_of(store, selection.items), label=label or store.name)


def execute(
    store: MemoryBase, selection: EraseSelection, *, search: bool = True, vacuum: bool = False
) -> ForgetReceipt:
    """Erase the selected items, in the logs of what agents were shown too; with `search`, look for them afterwards.

    Raises:
        NoTombstonesError: tombstones are asked for, and the store keeps none; nothing was erased.
    """
    if selection.request.tombstone:
        tombstones_of(store)
    if not selection.found and not vacuum:
        return ForgetReceipt(store=store.name, items=0)
    words = words_of(selection.items) if search else []
    exports = exports_of(store, selection.items)
    # First: a process that dies in between leaves items that can be named again, and no copies that cannot.
    shown = forget_shown(store.setup.session_dir, selection.request, selection.items)
    done = store.erase_selected(selection.request, selection.derived, words=words, vacuum=vacuum)
    return receipt_of(selection, replace(done, residues=(*done.residues, *shown)), exports, label=store.name)


def receipt_of(
    selection: EraseSelection, done: EraseResult, exports: Iterable[ExportRecord], *, label: str
) -> ForgetReceipt:
    """Return the receipt of a selection that was erased, or previewed."""
    reason = "it was derived from forgotten items and belongs to another scope"
    kept = tuple(Residue(place=f"item {item_id}", reason=reason) for item_id in selection.kept)
    return ForgetReceipt(
        store=label,
        items=done.items,
        derived=tuple(selection.derived),
        reached=done.reached,
        residues=(*kept, *done.residues),
        exports=tuple(exports),
        tombstones=done.tombstones,
    )
