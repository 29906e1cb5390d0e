"""JSON that MetaGPT wrote becomes items: memories, queues, brain memories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.messages import item_to_message
from devmem.model.items import MemoryItem, SourceKind
from devmem.transfer.filling import Filler
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data
from tests.transfer.reading import items_of

Write = Callable[[object], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(document: object) -> Path:
        file = tmp_path / "metagpt.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return file

    return written


def message(content: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "",
        "content": content,
        "instruct_content": None,
        "role": "user",
        "cause_by": "metagpt.actions.add_requirement.UserRequirement",
        "sent_from": "",
        "send_to": ["<all>"],
        "metadata": {},
        **more,
    }


def items(file: Path) -> list[MemoryItem]:
    data = open_data(file)
    assert data.format is FileFormat.METAGPT
    records = list(data.records)
    assert all(isinstance(record, MemoryItem) for record in records)
    return items_of(records)


def test_a_memory_becomes_its_messages_in_order(write: Write) -> None:
    stored = [
        message("Write a snake game.", id="a" * 32),
        message("## Design", id="b" * 32, role="Architect", sent_from="Bob", cause_by="metagpt.actions.WriteDesign"),
    ]
    file = write({"storage": stored, "index": {"metagpt.actions.WriteDesign": [stored[1]]}, "ignore_id": False})
    first, second = items(file)
    assert (first.id, first.content_summary) == ("a" * 32, "Write a snake game.")
    design = item_to_message(second)
    assert (design.content, design.source, design.cause_by) == ("## Design", "Bob", "metagpt.actions.WriteDesign")
    assert first.event_time is None, "MetaGPT keeps no time"


def test_a_queue_is_a_list_of_messages_or_of_their_json(write: Write) -> None:
    for document in ([message("one"), message("two")], [json.dumps(message("one")), json.dumps(message("two"))]):
        assert [item.content_summary for item in items(write(document))] == ["one", "two"]


def test_a_brain_memory_keeps_history_knowledge_and_summary_and_no_key(write: Write) -> None:
    document = {
        "history": [message("Hi.", id="1"), message("Hello!", id="2", role="assistant")],
        "knowledge": [message("Ann likes tea.")],
        "historical_summary": "They greeted each other.",
        "last_history_id": "2",
        "is_dirty": True,
        "config": {"llm": {"api_key": "sk-secret"}},
    }
    found = items(write(document))
    assert [item.content_summary for item in found] == [
        "They greeted each other.",
        "Ann likes tea.",
        "Hi.",
        "Hello!",
    ]
    assert found[0].provenance.kind is SourceKind.SUMMARY
    assert found[1].metadata["kind"] == "knowledge"
    assert "sk-secret" not in repr(found)


def test_a_file_that_is_imported_again_changes_nothing(write: Write, tmp_path: Path) -> None:
    file = write({"storage": [message("Write a snake game.", id="a" * 32)]})
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        for status in ("stored", "duplicate"):
            filler = Filler(memory.store)
            for record in items(file):
                filler.put(record)
            filler.flush()
            assert +filler.counts == {status: 1}
        (version,) = memory.history("a" * 32)
    message_again = item_to_message(version.item)
    assert message_again.content == "Write a snake game."
    assert message_again.created_at == version.item.created_at, "when it was said is unknown"
