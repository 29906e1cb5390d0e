"""Receipts of what was forgotten, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from devmem.storage.erasure import Residue
from devmem.storage.protocol import ExportRecord
from devmem.text.display import number_of

if TYPE_CHECKING:
    # Named in signatures alone: a receipt of one store is shown without the modules that run a workflow.
    from devmem.stores.erasing import ForgetReceipt
    from devmem.workflow.forgetting import WorkflowReceipt


def receipt_lines(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of a receipt; `total` is the number of items that the store has now."""
    done = "would be forgotten" if dry_run else "forgotten"
    derived = f", {len(receipt.derived):,} of them derived from others" if receipt.derived else ""
    yield f"{receipt.store}: {number_of(receipt.items, 'item')} {done}{derived}; {number_of(total, 'item')} now"
    if receipt.tombstones:
        yield f"kept out from now on: {number_of(receipt.tombstones, 'text')}; `devmem list --tombstones` lists them"
    yield from _place_lines(receipt.reached, receipt.residues)
    yield from _export_lines(receipt.exports)


def workflow_receipt_lines(receipt: WorkflowReceipt, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of the receipt of a workflow."""
    done = "would be forgotten" if dry_run else "forgotten"
    yield f"{number_of(receipt.items, 'item')} of {len(receipt.stores)} stores {done}"
    for part in receipt.stores:
        derived = f", {len(part.derived):,} of them copied or derived" if part.derived else ""
        kept_out = f", {number_of(part.tombstones, 'text')} kept out from now on" if part.tombstones else ""
        yield f"{part.store}: {number_of(part.items, 'item')}{derived}{kept_out}"
        yield from _place_lines(part.reached, part.residues)
    if receipt.writes:
        yield f"{receipt.writes:,} writes that waited for a store {done}"
    if receipt.shown:
        yield f"{receipt.shown:,} parts of the log of what agents were shown {done}"
    yield from _place_lines(receipt.reached, receipt.residues)
    yield from _export_lines(receipt.exports)


def _place_lines(reached: Sequence[str], residues: Sequence[Residue]) -> Iterator[str]:
    yield from (f"  reached: {place}" for place in reached)
    yield from (f"  not reached: {left.place}: {left.reason}" for left in residues)


def _export_lines(exports: Sequence[ExportRecord]) -> Iterator[str]:
    for export in exports:
        made = datetime.fromtimestamp(export.made_at, UTC).astimezone()
        place = export.place or "standard output"
        yield f"  not reached: {place}: {export.kind} of {made:%Y-%m-%d %H:%M %Z}, which may hold some of it"
