"""An update changes what is there now, and loses nobody else's change."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import devmem
from devmem.errors import NotStoredError, VersionConflictError

LISTED = """
from devmem.plugins import register_memory_store
from devmem.stores import ConfigModel, MemoryBase

@register_memory_store("listed")
class Listed(MemoryBase):
    config_model = ConfigModel
    def load(self): pass
    def update(self, payload): raise NotImplementedError
    def retrieve(self, agent_role, query, top_k, similarity_threshold): return []
"""


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
        newer = memory.update(note, metadata={"by": "ann"}, if_version=seen.version)
        with pytest.raises(VersionConflictError):
            memory.update(note, "The launch is in July.", if_version=seen.version)
        assert memory.get(note) == newer
        assert memory.update(note, metadata={"by": "ann"}) == newer


def test_a_key_is_replaced_only_by_who_read_it_last() -> None:
    """Also of a text in a list, and within a scope; a list is stored as a whole, or not at all."""
    with devmem.open(":memory:", embedding=None) as opened:
        memory = opened.scoped(user="ann")
        diet = memory.add("Ann eats everything.", key="diet", if_version="none")
        seen = memory.get(diet)
        assert seen is not None
        with pytest.raises(VersionConflictError, match="stored already"):
            memory.add("Ann eats fish.", key="diet", if_version="none")
        assert memory.add("Ann is a vegetarian.", key="diet", if_version=seen.version) == diet
        stale = {"text": "Ann is a vegan.", "key": "diet", "if_version": seen.version}
        with pytest.raises(VersionConflictError, match="was changed"):
            memory.add([{"text": "Ann runs.", "key": "sport"}, stale])
        assert [record.text for record in memory.list()] == ["Ann is a vegetarian."]
        with pytest.raises(ValueError, match="`id` or a `key`"):
            memory.add("Ann swims.", if_version="none")


def test_what_replaces_a_known_version_gets_the_lifetime_of_the_store(tmp_path: Path) -> None:
    team = tmp_path / "team.yaml"
    team.write_text("memory: [{name: notes, type: simple, config: {memory_path: notes.db, ttl: 1d}}]")
    with devmem.open(f"{team}#notes") as memory:
        diet = memory.add("Ann eats everything.", key="diet")
        (first,) = memory.get([diet])
        memory.add("Ann eats fish.", key="diet", if_version=first.version)
        (second,) = memory.get([diet])
        assert second.expires_at is not None


def test_two_writers_of_a_key_leave_both_versions() -> None:
    """The later one says what it replaced."""
    with devmem.open(":memory:", embedding=None) as memory:
        diet = memory.add("Ann eats fish.", key="diet", agent="a")
        memory.scoped(agent="a").add("Ann eats no fish.", key="diet")
        first, second = memory.history(diet)
        assert (first.replaced, second.replaced) == (None, first.item.version)
        memory.scoped(agent="a").store.delete(ids=[diet])
        memory.add("Ann eats fish again.", key="diet", agent="a")
        assert memory.history(diet)[-1].replaced is None


def test_a_store_that_cannot_compare_says_so(tmp_path: Path) -> None:
    team = tmp_path / "team.yaml"
    team.write_text("memory: [{name: board, type: listed}]\nplugins: [listed.py]")
    (tmp_path / "listed.py").write_text(LISTED)
    with devmem.open(f"{team}#board") as memory, pytest.raises(NotStoredError, match="cannot compare versions"):
        memory.add("Ann eats fish.", key="diet", if_version="none")


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
        assert memory.update(note, metadata={"by": "ann"}, if_version=newest.version) == memory.get(note)
        memory.update(note, fields=[])
        assert found() == []
        with pytest.raises(ValueError, match="`fields` are paths"):
            memory.update(note, fields="title")
