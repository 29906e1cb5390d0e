"""Stale items in PostgreSQL: marks, chains, circles, many dependants, renewing at a save and what it reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import devmem
from devmem.memory.memory import Memory
from devmem.model.items import MemoryItem, Provenance
from devmem.storage.postgres.collection import PostgresCollection
from devmem.stores.staleness import StaleReason, stale_items

pytestmark = pytest.mark.postgres

FACT, CHANGED = "The launch is on May 5th.", "The launch is on June 2nd."
CONCLUSION = "So the venue must be booked until May 5th."
CHANGED_REASON, CHAINED = StaleReason.CHANGED.value, StaleReason.STALE_SOURCE.value
Opened = Callable[..., Memory]


@pytest.fixture
def opened(store_url: str) -> Opened:
    """Open the same store, as often as a test likes."""

    def open_it(**config: object) -> Memory:
        return devmem.open({"type": "simple", "config": {"memory_path": store_url, **config}})

    return open_it


def reasons(memory: Memory) -> dict[str, str]:
    return {each.item.id: each.reason for each in memory.stale()}


def told(memory: Memory) -> None:
    """Add a fact, and a conclusion of a conclusion of it."""
    fact = memory.add(FACT, key="launch")
    memory.add(CONCLUSION, derived_from=[fact], id="venue")
    memory.add("So the caterer comes on May 5th.", derived_from=["venue"], id="caterer")


def test_ten_thousand_dependants(opened: Opened) -> None:
    with opened() as memory:
        fact = memory.add(FACT, key="launch")
        parents = Provenance(parents=(fact,))
        memory.store.add(
            [MemoryItem(content_summary=f"Booking {n}.", id=f"n{n}", provenance=parents) for n in range(10_000)]
        )
        assert stale_items(memory.store) == []
        memory.add(CHANGED, key="launch")
        assert [each.item.id for each in stale_items(memory.store)] == [f"n{n}" for n in range(10_000)]
        assert all(hit.stale for hit in memory.search("booking 77", limit=5))


def test_a_save_renews_and_reads_no_item_where_nothing_can_be_stale(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    derived = PostgresCollection.derived

    def counted(collection: PostgresCollection, after: int = 0) -> list[MemoryItem]:
        found = derived(collection, after)
        calls.append(len(found))
        return found

    monkeypatch.setattr(PostgresCollection, "derived", counted)
    with opened(on_stale="renew") as memory, opened() as other:
        told(memory)
        memory.store.save()
        calls.clear()
        memory.store.save()
        assert calls == []
        memory.add("It rains.")
        memory.store.save()
        assert calls == [0]
        other.add(CHANGED, key="launch")
        memory.store.save()
        assert reasons(memory) == {}
        assert [memory.get(name).text for name in ("venue", "caterer")] == [CHANGED, CHANGED]  # type: ignore[union-attr]
        assert [version.item.text for version in memory.history("venue")] == [CONCLUSION, CHANGED]
