"""Erasures that meet others, fail, or are left to whoever opens the store next, on another machine too."""

from __future__ import annotations

import logging
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import devmem
from devmem import MemoryItem, Scope, Workflow, load_workflow, open_stores
from devmem.errors import CollectionUnwritableError
from devmem.storage.erasure import EraseRequest
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.tables import StoreTables
from tests.conftest import StartScript
from tests.storage.test_erasures import storm

pytestmark = pytest.mark.postgres


def test_each_erasure_ends_its_own_plan(store_url: str) -> None:
    """Opening the store finishes none of a session that is still there; versions planned by one are left to it."""
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id=name, content_summary=f"note {name}") for name in "abc"])
        store.add([MemoryItem(id="b", content_summary="something else")])
        other = store.begin_erasure(EraseRequest(text="note b"))
        mine = store.begin_erasure(EraseRequest(ids=("a",)))
        failed = store.begin_erasure(EraseRequest(ids=("c",)))
        assert {plan.id for plan in store.planned_erasures()} == {mine.id, other.id, failed.id}
        with devmem.open(store_url, embedding=None) as memory:
            assert len(memory) == 3
        store.withdraw_erasure(failed)
        assert store.finish_erasure(mine).items == 1
        assert [(plan.id, plan.rows) for plan in store.planned_erasures()] == [(other.id, other.rows)]
        assert len(store.history("b")) == 2
        store.finish_erasure(other)
        assert store.planned_erasures() == []
        assert [version.item.content_summary for version in store.history("b")] == ["something else"]
        assert store.count() == 2


def test_a_storm_of_processes_ends_none_as_busy(store_url: str, start_script: StartScript) -> None:
    storm(start_script, store_url)
    with closing(PostgresCollection(store_url)) as store:
        assert store.planned_erasures() == []
        assert store._fetch(
            "SELECT count(*) FROM items WHERE store = %s AND ended IS NOT NULL", [store.database.store]
        ) == [(0,)]


def _renamed(key: str, changed: str, tables: StoreTables) -> None:
    tables.change("UPDATE pending SET key = ? WHERE key = ?", (changed, key))


def test_an_erasure_of_a_session_that_ended_is_finished(store_url: str) -> None:
    """Also one of a session that a pooler keeps for others."""
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id=name, content_summary=f"note {name}") for name in "abc"])
        # Of a session that has ended, and of one from long ago.
        for name, part, value in (("a", 1, "0"), ("b", 3, "1000")):
            session = store.begin_erasure(EraseRequest(ids=(name,))).id.split(".")
            key, changed = ".".join(session), ".".join((*session[:part], value, *session[part + 1 :]))
            store.database.write(partial(_renamed, key, changed))
        with devmem.open(store_url, embedding=None) as memory:
            assert [record.id for record in memory] == ["c"]
        assert store.planned_erasures() == []


def _full(*_: object, **__: object) -> int:
    raise CollectionUnwritableError("store", "the server lacks resources; this write failed as a whole.")


def test_an_erasure_that_failed_is_withdrawn(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told that nothing was deleted finds everything, now and after opening again."""
    with devmem.open(store_url, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        with monkeypatch.context() as patched:
            patched.setattr(PostgresCollection, "delete", _full)
            with pytest.raises(CollectionUnwritableError):
                memory.forget("a")
        assert memory.get("a") is not None
    with devmem.open(store_url, embedding=None) as memory:
        assert [record.id for record in memory] == ["a"]
        assert memory.forget("a").items == 1


_DIES = """
import os, sys
import devmem
from devmem.storage.postgres.collection import PostgresCollection

PostgresCollection.finish_erasure = lambda *_, **__: os._exit(9)
with devmem.open(sys.argv[1], embedding=None) as memory:
    memory.forget("a")
"""


def test_an_erasure_that_cannot_be_finished_keeps_nobody_from_reading(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start_script: StartScript
) -> None:
    with devmem.open(store_url, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        memory.add("Zanthropy", id="b")
    assert start_script(_DIES, store_url).wait(60) == 9
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(PostgresCollection, "finish_erasure", _full)
        with devmem.open(store_url, embedding=None) as memory:
            assert memory.search("Zanthropy")[0].id == "b"
    assert "waits for the next opening" in caplog.text
    with closing(PostgresCollection(store_url)) as store:
        assert len(store.planned_erasures()) == 1
    with devmem.open(store_url, embedding=None) as memory:
        assert [record.id for record in memory] == ["b"]
        assert memory.history("a") == []
    with closing(PostgresCollection(store_url)) as store:
        assert store.planned_erasures() == []


NAMES = ("notes", "copies", "board")
_KILLED = """
import os, sys
import devmem
from devmem.stores import CollectionMemory

erase_selected, left = CollectionMemory.erase_selected, [int(sys.argv[2])]

def dies(store, *given, **options):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return erase_selected(store, *given, **options)

CollectionMemory.erase_selected = dies
devmem.forget(sys.argv[1], user="ann")
"""


def _team(folder: Path, url: str) -> Workflow:
    """Declare the same stores in a folder, as on a machine of its own."""
    folder.mkdir()
    stores = [f"{{name: {name}, type: simple, config: {{memory_path: '{url} {name}'}}}}" for name in NAMES]
    (folder / "team.yaml").write_text("memory:\n" + "".join(f"  - {store}\n" for store in stores), encoding="utf-8")
    return load_workflow(folder / "team.yaml")


@pytest.fixture
def team(tmp_path: Path, store_url: str) -> Workflow:
    found = _team(tmp_path / "here", store_url)
    with open_stores(found) as stores:
        for name, store in stores.items():
            store.add(
                [
                    MemoryItem(id=f"{name} {user}", content_summary=f"{user} sails", scope=Scope(user=user))
                    for user in ("ann", "bob")
                ]
            )
    return found


def _users(workflow: Workflow) -> set[str | None]:
    with open_stores(workflow) as stores:
        return {item.scope.user for store in stores.values() for item in store.recent(10)}


@pytest.mark.parametrize("done", [0, 2])
def test_another_machine_finishes_what_was_decided(
    team: Workflow, tmp_path: Path, store_url: str, done: int, start_script: StartScript
) -> None:
    """Also for the stores that the process did not come to."""
    assert start_script(_KILLED, team.file, done).wait(120) == 9
    assert _users(_team(tmp_path / "there", store_url)) == {"bob"}
    assert _users(team) == {"bob"}
    assert devmem.forget(team, user="ann").items == 0


def test_a_database_that_cannot_be_told_is_named_in_the_receipt(
    team: Workflow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise devmem.errors.CollectionError("team", "the server cannot be reached")

    monkeypatch.setattr(PostgresCollection, "begin_erasure", fails)
    receipt = devmem.forget(team, user="ann")
    assert {left.place for left in receipt.left if left.failed} == set(NAMES)
    assert "only this machine knows" in caplog.text
    monkeypatch.undo()
    assert _users(team) == {"bob"}
