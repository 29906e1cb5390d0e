"""Stores of anyone: one that defines four methods and gets the rest by default, and one that was written for DevAll."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import devmem
from devmem import (
    Filter,
    Memory,
    MemoryBase,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryManager,
    MemoryWritePayload,
    Scope,
    Stage,
    WriteOutcome,
)
from devmem.config import Attachment
from devmem.plugins import registry
from devmem.storage import Order
from devmem.stores import ConfigModel, MemoryQuery, StoreSetup, WriteStatus
from devmem.testing import ManualClock
from tests.command_line import run_devmem
from tools import export_design_template


class Shelf(MemoryBase):
    """Keeps what agents say, and finds the items that share a word with the query."""

    config_model = ConfigModel

    def load(self) -> None:
        self.loaded = True

    def save(self) -> None:
        self.saved = len(self.contents)

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot | str, top_k: int = 3, similarity_threshold: float = -1.0
    ) -> list[MemoryItem]:
        text = query if isinstance(query, str) else query.text
        words = set(text.lower().split())
        return [item for item in self.contents if words & set(item.content_summary.lower().split())][:top_k]

    def update(self, payload: MemoryWritePayload) -> WriteOutcome:
        item = MemoryItem(content_summary=payload.output_text(), scope=payload.scope)
        self.contents.append(item)
        return WriteOutcome(status=WriteStatus.STORED, item_id=item.id)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def shelf(clock: ManualClock) -> Shelf:
    made = Shelf(StoreSetup(name="shelf", store_type="shelf", config=ConfigModel(), clock=clock))
    made.load()
    return made


def said(text: str, user: str | None) -> MemoryWritePayload:
    return MemoryWritePayload(output_snapshot=MemoryContentSnapshot(text=text), scope=Scope(user=user))


def test_hits_are_those_that_the_filter_admits(shelf: Shelf) -> None:
    """However many items of others `retrieve` puts before them."""
    for number in range(5):
        shelf.update(said(f"tea number {number}", "bob"))
    shelf.update(said("tea for Ann", "ann"))
    query = MemoryQuery(text="tea", limit=1, where=Filter(scope=Scope(user="ann")))
    assert [hit.item.content_summary for hit in shelf.search(query)] == ["tea for Ann"]
    assert [item.content_summary for item in asyncio.run(shelf.aretrieve("", "tea", 2))] == [
        "tea number 0",
        "tea number 1",
    ]
    scores = [hit.score for hit in shelf.search(MemoryQuery(text="tea", limit=3))]
    assert scores == sorted(scores, reverse=True)


def test_items_are_added_listed_and_deleted(shelf: Shelf, clock: ManualClock) -> None:
    items = [
        MemoryItem(id=name, content_summary=f"note {name}", created_at=created, event_time=happened)
        for name, created, happened in (("a", 100.0, 300.0), ("b", 200.0, 100.0), ("c", 300.0, 200.0))
    ]
    expired = MemoryItem(id="d", content_summary="note d", created_at=400.0, expires_at=500.0)
    done: list[int] = []
    assert [one.status for one in shelf.add([*items, items[0], expired], done.append)] == [
        *[WriteStatus.STORED] * 3,
        WriteStatus.DUPLICATE,
        WriteStatus.STORED,
    ]
    assert (done, shelf.saved, shelf.info().items, clock()) == ([5], 4, 3, 1000.0)
    assert [item.id for item in shelf.get(["c", "x", "a", "d"])] == ["c", "a"]
    assert [item.id for item in shelf.recent(2)] == ["c", "b"]
    assert [item.id for item in shelf.recent(2, order=Order.EVENT, offset=1)] == ["c", "b"]
    assert shelf.delete(ids=["b"]) == 1
    assert shelf.trim(stored_before=250.0) == 1
    assert shelf.trim(keep=1) == 1
    assert [item.id for item in shelf.contents] == ["d"]
    assert shelf.clear() == 1
    assert shelf.saved == 0
    shelf.close()


def test_a_memory_and_the_manager_work_on_it(shelf: Shelf) -> None:
    memory = Memory(shelf)
    memory.add(["Ann drinks tea."], user="ann")
    assert memory.search("drinks") == []
    assert [hit.text for hit in memory.search("drinks", user="ann")] == ["Ann drinks tea."]
    assert memory.forget(user="ann").items == 1
    manager = MemoryManager([Attachment(name="shelf")], {"shelf": shelf})
    manager.update(said("Bob drinks cocoa.", None), current_stage=Stage.FINISHED)
    found = manager.retrieve(query="cocoa drinks", current_stage=Stage.GEN)
    assert found is not None
    assert [hit.item.content_summary for hit in found.hits] == ["Bob drinks cocoa."]


CLASS = """
import json
import os
import time
import uuid
from typing import List

from devmem import register_memory_store
from devmem.stores.devall import (
    MemoryBase,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryStoreConfig,
    MemoryWritePayload,
)
from devmem_stores.blackboard import BlackboardConfig


class WallMemory(MemoryBase):
    def __init__(self, store: MemoryStoreConfig):
        config = store.as_config(BlackboardConfig)
        if not config:
            raise ValueError("a wall has another configuration")
        super().__init__(store)
        self.memory_path = config.memory_path
        self.max_items = self.store.as_config(BlackboardConfig).max_items

    def load(self) -> None:
        self.contents = []
        if self.memory_path and os.path.exists(self.memory_path):
            with open(self.memory_path, encoding="utf-8") as file:
                self.contents = [MemoryItem.from_dict(raw) for raw in json.load(file)]

    def save(self) -> None:
        if self.memory_path:
            os.makedirs(os.path.dirname(self.memory_path), exist_ok=True)
            with open(self.memory_path, "w", encoding="utf-8") as file:
                json.dump([item.to_dict() for item in self.contents[-self.max_items :]], file)

    def retrieve(
        self, agent_role: str, query: MemoryContentSnapshot, top_k: int, similarity_threshold: float
    ) -> List[MemoryItem]:
        return list(self.contents[-top_k:])

    def update(self, payload: MemoryWritePayload) -> None:
        snapshot = payload.output_snapshot or payload.input_snapshot
        content = (snapshot.text if snapshot else payload.inputs_text or "").strip()
        if not content:
            return
        self.contents.append(
            MemoryItem(
                id=f"w_{uuid.uuid4().hex}",
                content_summary=content,
                metadata={"agent_role": payload.agent_role, "attachments": snapshot.attachment_overview()},
                timestamp=time.time(),
                input_snapshot=payload.input_snapshot,
                output_snapshot=payload.output_snapshot,
            )
        )
        self.contents = self.contents[-self.max_items :]


register_memory_store("NAME", config_cls=BlackboardConfig, factory=WallMemory, summary="Last words")
"""
WORKFLOW = """
plugins: [./wall.py]
memory: [{name: wall, type: NAME, config: {memory_path: MEMORY}}]
nodes: [{id: helper, type: agent, config: {provider: extractive, memories: [{name: wall}]}}]
"""


NUMBERS = count()


@pytest.fixture
def name() -> Iterator[str]:
    """Return a type that no other test of this process registers; it is unknown again after the test."""
    made = f"wall{next(NUMBERS)}"
    yield made
    registry._types._registered.pop(made, None)


@pytest.fixture
def team(tmp_path: Path, name: str) -> Path:
    (tmp_path / "wall.py").write_text(CLASS.replace("NAME", name), encoding="utf-8")
    file = tmp_path / "team.yaml"
    file.write_text(WORKFLOW.replace("NAME", name).replace("MEMORY", "memory/wall.json"), encoding="utf-8")
    return file


def test_it_keeps_and_finds_what_nodes_say(team: Path) -> None:
    for _ in range(2):
        run_devmem("run", team, "--input", "Tea is at three.")
    kept = json.loads((team.parent / "memory/wall.json").read_text())
    assert [len(kept), kept[0]["output_snapshot"]["text"]] == [2, kept[0]["content_summary"]]
    with devmem.open(f"{team}#wall") as memory:
        memory.add("The launch is in June.", user="ann")
        assert [hit.text for hit in memory.search("anything", user="ann", limit=1)] == ["The launch is in June."]
    assert "The launch is in June." in run_devmem("list", team, "wall").stdout


def test_a_payload_is_made_by_position() -> None:
    answer = devmem.MemoryContentSnapshot(text="It lands at pier nine.")
    payload = devmem.MemoryWritePayload("guide", "Where?", None, answer)
    assert (payload.agent_role, payload.inputs_text, payload.output_text()) == ("guide", "Where?", answer.text)
    assert devmem.MemoryContentSnapshot.from_dict(answer.to_dict()) == answer
    assert devmem.MemoryContentSnapshot.from_dict(None) is None


def test_auto_is_a_json_file_of_the_session(team: Path) -> None:
    team.write_text(team.read_text().replace("memory/wall.json", "auto"), encoding="utf-8")
    run_devmem("run", team, "--input", "Tea is at three.")
    assert [file.name for file in team.parent.rglob("memory_wall.json")] == ["memory_wall.json"]


def test_its_type_is_listed_wherever_types_are(team: Path, name: str) -> None:
    assert "Last words" in run_devmem("stores", team).stdout
    assert f'"{name}"' in run_devmem("validate", team, "--format", "schema").stdout
    written = team.parent / "template.yaml"
    assert export_design_template.main(["--output", str(written), "--workflow", str(team)]) == 0
    assert name in written.read_text(encoding="utf-8")
