"""Adding items to a store, with every refusal raised."""

from __future__ import annotations

from collections.abc import Sequence

from devmem.errors import NotStoredError
from devmem.model.items import MemoryItem
from devmem.model.results import WriteStatus
from devmem.stores.memory import MemoryBase


def store_items(store: MemoryBase, items: Sequence[MemoryItem]) -> list[str]:
    """Store items and return the ids under which they are kept.

    Raises:
        NotStoredError: the store does not take some of them.
        CollectionError: they cannot be written.
    """
    outcomes = store.add(items) if items else []
    kept: list[str] = []
    refused: list[str] = []
    for item, outcome in zip(items, outcomes, strict=True):
        if outcome.status is WriteStatus.SKIPPED:
            refused.append(outcome.reason)
        else:
            kept.append(outcome.item_id or item.id)
    if refused:
        raise NotStoredError(refused, stored=kept)
    return kept
