"""A store class that was written for DevAll: only its imports are devmem's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import devmem
from devmem.plugins import registry
from tests.command_line import run_devmem
from tools import export_design_template

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
