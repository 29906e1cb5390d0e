"""An update changes what is there now, and loses nobody else's change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import devmem
from devmem.errors import VersionConflictError
from devmem.storage import Order
from devmem.testing import HashEmbedder


def test_updates_at_the_same_time_are_all_kept() -> None:
    """Each adds a value of its own."""
    with devmem.open(":memory:", embedding=None) as memory, ThreadPoolExecutor(4) as pool:
        note = memory.add("The launch is in June.")
        list(pool.map(lambda n: memory.update(note, metadata={f"key {n}": n}), range(40)))
        record = memory.get(note)
        assert record is not None
        assert sorted(record.metadata.values(), key=str) == sorted(range(40), key=str)


def test_an_expected_version() -> None:
    """Whoever read an older version is told, and changes nothing."""
    with devmem.open(":memory:", embedding=None) as memory:
        note = memory.add("The launch is in June.")
        seen = memory.get(note)
        assert seen is not None
        newer = memory.update(note, metadata={"by": "ann"}, expected=seen.version)
        with pytest.raises(VersionConflictError):
            memory.update(note, "The launch is in July.", expected=seen.version)
        assert memory.get(note) == newer
        assert memory.update(note, metadata={"by": "ann"}) == newer


def test_other_fields_are_searched() -> None:
    """None takes those of the store, and the record that is returned is the stored one."""
    with devmem.open(":memory:", embedding=None, fields=["title"]) as memory:
        note = memory.add("Tea at three.", metadata={"title": "Launch", "town": "Oslo"})

        def found() -> list[str]:
            return [word for word in ("launch", "oslo") if memory.search(word)]

        assert found() == ["launch"]
        memory.update(note, fields=["town"])
        assert found() == ["oslo"]
        memory.update(note, metadata={"town": "Bergen"})
        assert found() == []
        newest = memory.update(note, fields=None)
        assert found() == ["launch"]
        assert memory.update(note, metadata={"by": "ann"}, expected=newest.version) == memory.get(note)
        memory.update(note, fields=[])
        assert found() == []
        with pytest.raises(ValueError, match="`fields` are paths"):
            memory.update(note, fields="title")


def test_a_changed_field_is_found_by_its_meaning(tmp_path: Path) -> None:
    """An update that leaves the text as it is embeds what a field says now, and nothing else again."""
    with devmem.open(tmp_path / "notes.db", embedding=HashEmbedder(64), fields=["title"]) as memory:
        note = memory.add("Tea at three.", metadata={"title": "the night train"})

        def found(text: str) -> str | None:
            hit = memory.search(text)[0].hit
            return hit.field if (hit.similarity or 0) > 0.99 else None

        assert found("the night train") == "title"
        memory.update(note, metadata={"title": "a day at sea"})
        assert found("a day at sea") == "title"
        memory.update(note, metadata={"town": "Oslo by the fjord"}, fields=["title", "town"])
        assert found("Oslo by the fjord") == "town"


def test_pages_in_the_order_of_events() -> None:
    """As in a calendar, the last first."""
    with devmem.open(":memory:", embedding=None) as memory:
        for day in (3, 1, 2):
            memory.add(f"day {day}", time=f"2026-05-0{day}")
        assert [record.text for record in memory.recent(order=Order.EVENT)] == ["day 3", "day 2", "day 1"]
        assert [record.text for record in memory.recent(1, order=Order.EVENT, offset=1)] == ["day 2"]
