"""Receipts of what was forgotten, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from devmem.collections import Unreached
from devmem.collections.exports import ExportRecord
from devmem.forgetting.receipts import WorkflowReceipt
from devmem.stores.forgetting import ForgetReceipt


def receipt_lines(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of a receipt; `total` is the number of items that the store has now."""
    done = "would be forgotten" if dry_run else "forgotten"
    derived = f", {len(receipt.derived):,} of them derived from others" if receipt.derived else ""
    yield f"{receipt.store}: {_items(receipt.items)} {done}{derived}; {_items(total)} now"
    yield from _place_lines(receipt.reached, receipt.unreached)
    yield from _export_lines(receipt.exports)


def receipt_json(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> dict[str, Any]:
    """Return the JSON form of a receipt; `total` is the number of items that the store has now."""
    return {
        "store": receipt.store,
        "would_forget" if dry_run else "forgotten": receipt.items,
        "items": total,
        "derived": list(receipt.derived),
        "reached": list(receipt.reached),
        "not_reached": _unreached_json(receipt.unreached),
        "exports": [_export_json(export) for export in receipt.exports],
    }


def workflow_receipt_lines(receipt: WorkflowReceipt, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of the receipt of a workflow."""
    done = "would be forgotten" if dry_run else "forgotten"
    yield f"{_items(receipt.items)} of {len(receipt.stores)} stores {done}"
    for part in receipt.stores:
        derived = f", {len(part.derived):,} of them copied or derived" if part.derived else ""
        yield f"{part.store}: {_items(part.items)}{derived}"
        yield from _place_lines(part.reached, part.unreached)
    if receipt.writes:
        yield f"{receipt.writes:,} writes that waited for a store {done}"
    yield from _place_lines(receipt.reached, receipt.unreached)
    yield from _export_lines(receipt.exports)


def workflow_receipt_json(receipt: WorkflowReceipt, *, dry_run: bool = False) -> dict[str, Any]:
    """Return the JSON form of the receipt of a workflow."""
    count = "would_forget" if dry_run else "forgotten"
    return {
        count: receipt.items,
        "writes": receipt.writes,
        "stores": [
            {
                "store": part.store,
                count: part.items,
                "derived": list(part.derived),
                "reached": list(part.reached),
                "not_reached": _unreached_json(part.unreached),
            }
            for part in receipt.stores
        ],
        "reached": list(receipt.reached),
        "not_reached": _unreached_json(receipt.unreached),
        "exports": [_export_json(export) for export in receipt.exports],
    }


def _place_lines(reached: Sequence[str], unreached: Sequence[Unreached]) -> Iterator[str]:
    yield from (f"  reached: {place}" for place in reached)
    yield from (f"  not reached: {left.place}: {left.reason}" for left in unreached)


def _export_lines(exports: Sequence[ExportRecord]) -> Iterator[str]:
    for export in exports:
        made = datetime.fromtimestamp(export.made_at, UTC)
        place = export.place or "standard output"
        yield f"  not reached: {place}: {export.kind} of {made:%Y-%m-%d %H:%M} UTC, which may hold some of it"


def _export_json(export: ExportRecord) -> dict[str, Any]:
    """Return the JSON form without the hashes, which say nothing to a reader."""
    hidden = ("scope", "ids", "salt")
    return {key: value for key, value in export.to_json().items() if key not in hidden}


def _unreached_json(unreached: Sequence[Unreached]) -> list[dict[str, str]]:
    return [{"place": left.place, "reason": left.reason} for left in unreached]


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"
