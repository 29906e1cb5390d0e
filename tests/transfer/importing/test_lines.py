"""JSON lines: texts, dumped items and rescued writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem import MemoryContentSnapshot, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import DataFileError
from devmem.stores import Provenance, SourceKind, dump_item
from devmem.transfer.importing.files import FileFormat
from devmem.transfer.importing.formats import read_records
from devmem.workflow import dump_write
from tests.transfer.reading import strict_items as items


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize("key", ["text", "content", "content_summary"])
def test_a_text_becomes_an_item(tmp_path: Path, key: str) -> None:
    (item,) = items(written(tmp_path / "a.jsonl", {key: "The tram stops here."}))
    assert item.content_summary == "The tram stops here."
    assert item.provenance == Provenance(kind=SourceKind.IMPORT, name="a.jsonl")
    assert item.event_time is None


@pytest.mark.parametrize("speaker_key", ["speaker", "role"])
@pytest.mark.parametrize("time_key", ["time", "date", "timestamp", "event_time", "created_at"])
def test_who_said_it_and_when_is_kept(tmp_path: Path, speaker_key: str, time_key: str) -> None:
    record: dict[str, Any] = {"text": "Hello.", speaker_key: "Mara", time_key: "1970-01-01T00:01:00Z"}
    record |= {"user": "u1", "agent": "a1", "session": "s1", "conversation": 7, "mood": "good", "metadata": {"x": 1}}
    (item,) = items(written(tmp_path / "a.jsonl", record))
    assert item.content_summary == "Mara: Hello."
    assert item.event_time == 60
    assert item.scope == Scope(user="u1", agent="a1", session="s1", conversation="7")
    assert item.metadata == {"speaker": "Mara", "mood": "good", "x": 1}


def test_a_record_without_an_id_always_has_the_same(tmp_path: Path) -> None:
    first, second = ({"text": "one", "n": 1}, {"text": "two"})
    ids = [item.id for item in items(written(tmp_path / "a.jsonl", first, second))]
    again = [item.id for item in items(written(tmp_path / "other.jsonl", second, {"n": 1, "text": "one"}))]
    assert ids == again[::-1]
    assert len(set(ids)) == 2


def test_a_long_text_is_kept_whole_beside_what_is_shown(tmp_path: Path) -> None:
    text = "A sentence about rivers. " * 200
    (item,) = items(written(tmp_path / "a.jsonl", {"text": text, "speaker": "Mara"}))
    assert len(item.content_summary) <= 1000
    assert item.output_snapshot == MemoryContentSnapshot(text=f"Mara: {text.strip()}")


def test_a_dumped_item_comes_back_without_its_vector(tmp_path: Path) -> None:
    item = MemoryItem(
        content_summary="what was said",
        embedding=np.ones(3, dtype=np.float32),
        created_at=5.0,
        event_time=4.0,
        input_snapshot=MemoryContentSnapshot(text="in"),
        output_snapshot=MemoryContentSnapshot(text="out"),
        scope=Scope(user="u"),
        metadata={"k": [1]},
        trust=0.5,
    )
    (loaded,) = items(written(tmp_path / "a.jsonl", {**dump_item(item), "embedding_model": "other"}))
    assert loaded == item
    assert loaded.embedding is None
    assert "embedding_model" not in loaded.metadata


def test_a_rescued_write_is_a_payload(tmp_path: Path) -> None:
    payload = MemoryWritePayload(
        inputs_text="asked", output_snapshot=MemoryContentSnapshot(text="said"), scope=Scope(user="u"), source="node"
    )
    path = tmp_path / "unsaved.jsonl"
    path.write_text(dump_write(payload) + "\n", encoding="utf-8")
    assert list(read_records(path)) == [payload]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("7", "expected an object, found int"),
        ('{"text": ', "not JSON"),
        ('{"n": 1}', "no text: expected one of the keys text, content, content_summary, found 'n'"),
        ('{"text": "  "}', "'text': expected text, found empty text"),
        ('{"text": "x", "metadata": [1]}', "'metadata': expected an object"),
        ('{"content_summary": "x", "scope": {"user": []}}', "scope.user"),
        ('{"payload": {"inputs_text": 5}}', "inputs_text"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_record_names_its_line(tmp_path: Path, record: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "fine"}}\n\n{record}\n', encoding="utf-8")
    records = read_records(path, FileFormat.JSONL)
    next(records)
    with pytest.raises(DataFileError) as caught:
        next(records)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("expiry", ["2030-01-01T00:00:00Z", 1893456000, 1893456000000])
def test_expires_at_is_an_expiry_and_no_metadata(tmp_path: Path, expiry: object) -> None:
    lines = [
        {"text": "The guest code is 99.", "expires_at": expiry},
        {"id": "x", "content_summary": "The guest code is 99.", "expires_at": expiry},
    ]
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    for item in read_records(path):
        assert isinstance(item, MemoryItem)
        assert item.expires_at == 1893456000.0
        assert "expires_at" not in item.metadata


def test_a_ttl_counts_from_the_import_on(tmp_path: Path) -> None:
    """In records and in tables; it is no metadata."""
    lines, table = tmp_path / "x.jsonl", tmp_path / "x.csv"
    lines.write_text('{"text": "The guest code is 99.", "ttl": "1d"}\n', encoding="utf-8")
    table.write_text("text,ttl\nThe guest code is 99.,1d\n", encoding="utf-8")
    for path in (lines, table):
        (item,) = read_records(path)
        assert isinstance(item, MemoryItem)
        assert item.expires_at == item.created_at + 86_400
        assert "ttl" not in item.metadata


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ('"ttl": "soon"', "'ttl': expected a duration"),
        (f'"ttl": {"9" * 400}', "at most a century"),
        ('"ttl": 5, "expires_at": 9e9', "both say when it expires"),
    ],
)
def test_a_ttl_that_cannot_be_is_refused(tmp_path: Path, fields: str, reason: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"text": "x", {fields}}}', encoding="utf-8")
    with pytest.raises(DataFileError, match=reason):
        list(read_records(path))


def test_records_whose_time_is_unreadable_are_counted_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They keep the value, and have no time: that of the import is not when it happened."""
    path = tmp_path / "a.jsonl"
    lines = [{"text": f"Note {at}.", "created_at": "soon" if at % 2 else 1793872800 + at} for at in range(20)]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    items = [item for item in read_records(path) if isinstance(item, MemoryItem)]
    assert [item.metadata.get("created_at") for item in items if item.event_time is None] == ["soon"] * 10
    (said,) = caplog.messages
    assert "read without their time: 10: " in said
    assert "a.jsonl:2: 'created_at': not a time: 'soon'" in said
    assert "and 5 more" in said
