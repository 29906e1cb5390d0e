"""`devmem copy`: out of mem0 into any other store and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from devmem import MemoryContentSnapshot, MemoryItem, Scope, load_workflow, open_stores
from tests.command_line import run_devmem

from .fake_mem0 import KEY, FakeMem0, Fault, failure

Run = Callable[..., Result]


@pytest.fixture
def workflow(fake: FakeMem0, tmp_path: Path) -> Path:
    file = tmp_path / "w.yaml"
    file.write_text(
        f"""
memory:
  - {{name: hosted, type: mem0, config: {{api_key: {KEY}, host: "{fake.address}", user_id: ann, retries: 0}}}}
  - {{name: archive, type: simple, config: {{memory_path: archive.db}}}}
  - {{name: board, type: blackboard, config: {{memory_path: board.json}}}}
  - {{name: passing, type: simple}}
nodes: []
"""
    )
    return file


@pytest.fixture
def devmem(workflow: Path) -> Run:
    def run(*arguments: str, code: int = 0) -> Result:
        done = run_devmem(arguments[0], workflow, *arguments[1:], code=code)
        assert KEY not in done.output
        return done

    return run


def items_of(workflow: Path, name: str) -> list[MemoryItem]:
    with open_stores(load_workflow(workflow), [name]) as stores:
        return stores[name].recent(1000)


def test_out_of_mem0_and_back(workflow: Path, devmem: Run, fake: FakeMem0) -> None:
    for number in range(150):
        fake.remember(f"Fact {number}.", user_id="ann", categories=["facts"], metadata={"n": number})
    done = devmem("copy", "hosted", "archive")
    assert "150 stored; archive has 150 items now" in done.stdout
    assert "could not be carried over" not in done.output
    before = {memory["id"]: memory["memory"] for memory in fake.memories}
    assert {item.id: item.content_summary for item in items_of(workflow, "archive")} == before
    fake.memories.clear()
    devmem("copy", "archive", "hosted")
    again = {memory["metadata"]["devmem_id"]: memory["memory"] for memory in fake.memories}
    assert again == before
    assert {memory["created_at"] for memory in fake.memories} == {fake.now.isoformat()}


def test_what_mem0_has_no_place_for_is_named(workflow: Path, devmem: Run) -> None:
    with open_stores(load_workflow(workflow), ["archive"]) as stores:
        stores["archive"].add(
            [
                MemoryItem(
                    content_summary="I like tea.",
                    scope=Scope(user="bob", conversation="c"),
                    metadata={"tags": ["a"]},
                    trust=0.5,
                    event_time=5.0,
                    input_snapshot=MemoryContentSnapshot(text="whole"),
                    output_snapshot=MemoryContentSnapshot(text="answer"),
                )
            ]
        )
    report: dict[str, Any] = json.loads(devmem("copy", "archive", "hosted", "--json").stdout)
    assert report["counts"] == {"stored": 1}
    assert report["lost"] == {"input_snapshot": 1, "output_snapshot": 1}
    shown = devmem("copy", "archive", "hosted")
    assert "input_snapshot of 1 item(s) could not be carried over" in shown.stderr
    assert "1 duplicate" in shown.stdout


def test_interrupted_copy_goes_on(workflow: Path, devmem: Run, fake: FakeMem0) -> None:
    with open_stores(load_workflow(workflow), ["archive"]) as stores:
        stores["archive"].add([MemoryItem(id=f"i{n}", content_summary=f"Fact {n}.") for n in range(10)])
    seen = 0

    def fail_in_the_middle(request: Any) -> None:
        nonlocal seen
        seen += request.path == "/v3/memories/add/"
        if seen == 5:
            fake.faults.append(failure(401, path="/v3/memories/add/"))

    fake.before_each = fail_in_the_middle
    failed = devmem("copy", "archive", "hosted", code=2)
    assert "HTTP 401" in failed.stderr
    assert len(fake.memories) == 4
    fake.before_each = lambda _: None
    fake.faults.append(Fault("drop", path="/v3/memories/add/", after_work=True))
    devmem("copy", "archive", "hosted", code=2)
    assert len(fake.memories) == 5
    report = json.loads(devmem("copy", "archive", "hosted", "--json").stdout)
    assert report["counts"] == {"duplicate": 5, "stored": 5}
    assert sorted(fake.texts()) == sorted(f"Fact {n}." for n in range(10))
