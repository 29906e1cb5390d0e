"""Every search and every write is reported with its time and its counts."""

from __future__ import annotations

import logging

import pytest

from devmem import MemoryContentSnapshot, Stage
from devmem.messages import MessageBlock
from devmem.stores import SnapshotBlock
from devmem.workflow import MemoryOperation

from .doubles import ScriptedStore, StrangeError, hit, manager_of, said

PICTURES = MemoryContentSnapshot(text="x", blocks=(SnapshotBlock(block=MessageBlock(type="image")),) * 2)


def test_operations_are_reported_with_counts_and_time() -> None:
    done: list[MemoryOperation] = []
    store = ScriptedStore(hits=[hit("one"), hit("two", output_snapshot=PICTURES)])
    manager = manager_of(store, on_operation=done.append, clock=lambda: 5.0)
    manager.retrieve(query="tea?", current_stage="gen")
    manager.update(said("Tea.", input_snapshot=PICTURES))
    store.failing["search"] = StrangeError()
    manager.retrieve(query="cake?", current_stage="pre")
    assert [(one.kind, one.store, one.stage, one.items, one.attachments) for one in done] == [
        ("retrieve", "notes", Stage.GEN, 2, 2),
        ("update", "notes", Stage.FINISHED, 1, 2),
        ("retrieve", "notes", Stage.PRE, 0, 0),
    ]
    assert [type(one.error) for one in done] == [type(None), type(None), StrangeError]
    assert all(one.started_at == 5.0 and one.seconds >= 0 for one in done)


def test_they_are_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="devmem.workflow.attachments"):
        manager_of(ScriptedStore(hits=[hit("one")])).retrieve(query="tea?")
    (record,) = (each for each in caplog.records if each.name == "devmem.workflow.attachments")
    assert record.getMessage().startswith("retrieve 'notes' at gen: 1 items in ")
    assert (vars(record)["memory_store"], vars(record)["memory_items"]) == ("notes", 1)
