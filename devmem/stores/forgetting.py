"""Forgetting for good in one store: what is selected, what was derived from it, and a receipt of what was reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from devmem.model.items import MemoryItem
from devmem.model.results import html_table
from devmem.storage.erasure import EraseRequest, Residue, words_of
from devmem.storage.searching import ExportRecord
from devmem.stores.abilities import exports_of
from devmem.stores.memory import MemoryBase


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetPlan:
    """Items that are to be forgotten."""

    erasing: EraseRequest
    selected: tuple[MemoryItem, ...]
    """Items that were asked for."""
    derived: tuple[MemoryItem, ...] = ()
    """Items that were derived from them."""
    kept: tuple[str, ...] = ()
    """Ids of derived items that stay, since they are out of reach."""

    @property
    def items(self) -> tuple[MemoryItem, ...]:
        """Every item that is to be forgotten."""
        return (*self.selected, *self.derived)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """Receipt of a forgetting in one store, or of a dry run: how much it is, and how far it reached."""

    store: str
    items: int
    """Number of items, derived ones included; of those whose versions only were left none is counted."""
    derived: tuple[str, ...] = ()
    """Ids of the items that were forgotten because they were derived from others that were."""
    reached: tuple[str, ...] = ()
    """Files that were searched afterwards and hold nothing of the items."""
    unreached: tuple[Residue, ...] = ()
    """Places that still hold something, or that could not be searched, with the reason."""
    exports: tuple[ExportRecord, ...] = ()
    """Exports and backups that were made before and may hold some of the items; they are not reached."""

    def cells(self) -> tuple[object, ...]:
        """Return a row of a table, under `RECEIPT_COLUMNS`."""
        left = ", ".join(f"{one.place} ({one.reason})" for one in self.unreached)
        exports = ", ".join(export.place or "printed" for export in self.exports)
        return self.store, self.items, len(self.derived), ", ".join(self.reached), left, exports

    def _repr_html_(self) -> str:
        return html_table(RECEIPT_COLUMNS, [self.cells()])


RECEIPT_COLUMNS: Final = ("store", "items", "derived", "searched", "not reached", "exports")
"""Columns of a receipt in a notebook."""


def plan_forgetting(
    store: MemoryBase, erasing: EraseRequest, is_reached: Callable[[MemoryItem], bool] = lambda _: True
) -> ForgetPlan:
    """Return what is forgotten with a selection; derived items that are not reached stay."""
    selected = store.select_erasable(erasing)
    derived = store.derived_from([item.id for item in selected]) if selected else []
    return ForgetPlan(
        erasing=erasing,
        selected=tuple(selected),
        derived=tuple(item for item in derived if is_reached(item)),
        kept=tuple(item.id for item in derived if not is_reached(item)),
    )


def preview(store: MemoryBase, plan: ForgetPlan) -> ForgetReceipt:
    """Return the receipt of a dry run."""
    there = store.get([item.id for item in plan.items])
    return ForgetReceipt(
        store=store.name,
        items=len(there),
        derived=tuple(item.id for item in plan.derived),
        unreached=_kept(plan),
        exports=tuple(exports_of(store, plan.items)),
    )


def forget(store: MemoryBase, plan: ForgetPlan, *, search: bool = True, vacuum: bool = False) -> ForgetReceipt:
    """Forget what is planned; with `search`, look for it in the store's files afterwards."""
    words = words_of(plan.items) if search else []
    derived = tuple(item.id for item in plan.derived)
    if not plan.items and not vacuum:
        return ForgetReceipt(store=store.name, items=0)
    exports = tuple(exports_of(store, plan.items))
    done = store.purge(plan.erasing, derived, words=words, vacuum=vacuum)
    return ForgetReceipt(
        store=store.name,
        items=done.items,
        derived=derived,
        reached=done.reached,
        unreached=(*_kept(plan), *done.unreached),
        exports=exports,
    )


def _kept(plan: ForgetPlan) -> tuple[Residue, ...]:
    reason = "it was derived from what is forgotten and belongs to another scope"
    return tuple(Residue(place=f"item {item_id}", reason=reason) for item_id in plan.kept)
