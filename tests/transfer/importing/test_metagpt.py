"""JSON documents of MetaGPT and DevAll become items; what has no known format is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.errors import DataFileError
from devmem.messages import item_to_message
from devmem.model.items import MemoryItem, SourceKind
from devmem.transfer.filling import Filler
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data, read_records
from tests.transfer.reading import items_of, strict_items

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


DEVALL: dict[str, Any] = {
    "id": "d1",
    "content_summary": "Input: a\nOutput: b",
    "metadata": {"agent_role": "writer"},
    "embedding": [0.1, 0.2],
    "timestamp": 1700000000.5,
    "input_snapshot": {"text": "a", "blocks": []},
    "output_snapshot": None,
}


def stored(path: Path, document: object) -> Path:
    text = json.dumps(document, indent=2).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def test_memories_of_devall_are_read(tmp_path: Path) -> None:
    path = stored(tmp_path / "memory.json", [DEVALL, {"text": "A plain text in a list."}])
    assert open_data(path).format is FileFormat.DEVALL
    first, second = strict_items(path)
    assert (first.id, first.created_at, first.embedding) == ("d1", 1700000000.5, None)
    assert first.input_snapshot is not None
    assert first.metadata == {"agent_role": "writer"}
    assert second.content_summary == "A plain text in a list."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'[{"text": ', ":1: the file is not JSON"),
        (b'[\n{"text": "\xff"}]', ":2: the file is not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"memory:\n  - name: x\n", "it begins with 'memory:'; --format text reads it"),
    ],
)
def test_what_is_no_document_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataFileError) as caught:
        list(read_records(path))
    assert said in str(caught.value)
