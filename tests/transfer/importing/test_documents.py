"""JSON documents: DevAll's lists, and what has no known format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing import FileFormat, open_data, read_records
from tests.transfer.reading import strict_items as items

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
    first, second = items(path)
    assert (first.id, first.created_at, first.embedding) == ("d1", 1700000000.5, None)
    assert first.input_snapshot is not None
    assert first.metadata == {"agent_role": "writer"}
    assert second.content_summary == "A plain text in a list."


def test_a_single_object_on_many_lines_is_told_from_json_lines(tmp_path: Path) -> None:
    talk = {"conversations": [{"from": "human", "value": "Hello."}]}
    assert open_data(stored(tmp_path / "one.json", talk)).format is FileFormat.SHAREGPT
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": \n{"text": "x"}\n', encoding="utf-8")
    assert open_data(broken).format is FileFormat.JSONL


def test_an_empty_list_has_no_records(tmp_path: Path) -> None:
    assert items(stored(tmp_path / "a.json", [])) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([DEVALL, 5], "[1]: expected an object, found int"),
        ([DEVALL | {"timestamp": "soon"}], "[0]: 'timestamp': not a time: 'soon'"),
        (
            [1, 2],
            "unrecognised format (not one of jsonl, devall, export, chatgpt, claude, claude-code, codex, slack,",
        ),
        ({"a": {"b": 1}, "c": 2}, "it has an object with the keys 'a', 'c'"),
        ("text", "it begins with"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, document: object, said: str) -> None:
    path = stored(tmp_path / "data.json", document)
    with pytest.raises(DataFileError) as caught:
        list(read_records(path))
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)


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


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    path = stored(tmp_path / "data.json", [{"a": 1}])
    with pytest.raises(DataFileError, match="expected a conversation"):
        items(path, "sharegpt")
