"""A forgetting over stores in a database whose machine died: whoever opens the stores on another one finishes it."""

from __future__ import annotations

from pathlib import Path

import pytest

import devmem
from devmem import MemoryItem, Scope, Workflow, load_workflow, open_stores
from devmem.storage.postgres.collection import PostgresCollection
from tests.conftest import StartScript

pytestmark = pytest.mark.postgres

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
