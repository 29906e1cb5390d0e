"""Receipts of what was forgotten, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devmem.stores.forgetting import ForgetReceipt


def receipt_lines(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> Iterator[str]:
    """Return the lines of a receipt; `total` is the number of items that the store has now."""
    done = "would be forgotten" if dry_run else "forgotten"
    derived = f", {len(receipt.derived):,} of them derived from others" if receipt.derived else ""
    yield f"{receipt.store}: {_items(receipt.items)} {done}{derived}; {_items(total)} now"
    yield from (f"  reached: {place}" for place in receipt.reached)
    yield from (f"  not reached: {left.place}: {left.reason}" for left in receipt.unreached)


def receipt_json(receipt: ForgetReceipt, total: int, *, dry_run: bool = False) -> dict[str, Any]:
    """Return the JSON form of a receipt; `total` is the number of items that the store has now."""
    return {
        "store": receipt.store,
        "would_forget" if dry_run else "forgotten": receipt.items,
        "items": total,
        "derived": list(receipt.derived),
        "reached": list(receipt.reached),
        "not_reached": [{"place": left.place, "reason": left.reason} for left in receipt.unreached],
    }


def _items(count: int) -> str:
    return f"{count:,} item{'' if count == 1 else 's'}"
