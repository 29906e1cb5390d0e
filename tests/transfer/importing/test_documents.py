"""JSON documents: DevAll's lists, and what has no known format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import open_data, read_records
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
