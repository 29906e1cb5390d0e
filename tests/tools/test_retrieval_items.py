"""The items of data sets: LoCoMo's conversations, LongMemEval's histories, MADial-Bench's memories, and units."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from devmem import MemoryItem, Scope
from devmem.stores import Provenance, SourceKind
from devmem.transfer.importing.formats import read_records
from tests.tools.retrieval_data import LOCOMO, LONGMEMEVAL, MEMORIES, write, write_lines
from tools.bench.__main__ import app
from tools.bench.retrieval.items import DataForm, read_items

HISTORY = LONGMEMEVAL[0]
FIELDS = ("kind", "with", "where", "from", "to")


@pytest.mark.parametrize("document", [LOCOMO, LOCOMO[0]])
def test_turns_of_locomo_keep_their_order_and_place(tmp_path: Path, document: object) -> None:
    data = read_items(write(tmp_path / "locomo.json", document))
    assert data.form is DataForm.LOCOMO
    assert [item.id for item in data.items] == [f"conv-1/{name}" for name in ("D1:1", "D1:2", "D2:1", "D2:2")]
    first, second, third, _ = data.items
    start = datetime(2023, 5, 8, 13, 56, tzinfo=UTC).timestamp()
    assert (first.content_summary, first.event_time) == ("Mara: I adopted a cat called Pixel.", start)
    assert first.scope == Scope(conversation="conv-1", session="session_1")
    assert first.metadata == {"dia_id": "D1:1", "speaker": "Mara"}
    assert first.provenance == Provenance(kind=SourceKind.IMPORT, name="locomo.json")
    assert second.event_time == start + 1
    assert third.content_summary == "Mara: We moved to Lisbon. [shares an image: a photo of a tram]"


def test_units_may_be_records(tmp_path: Path) -> None:
    """Their own fields, or those that a phone's tables have beside the text."""
    texts = {
        "call:0": ("call", "call to Ann Li (Connected) 2025-01-03 07:50:00 - 2025-01-03 07:53:15"),
        "sms:1": ("Ann Li", "me -> Ann Li: See you at eight."),
        "calendar:2": ("calendar", "Dinner. With all. 2025-01-04 18:00:00 - 2025-01-04 20:00:00"),
        "push:3": ("push", "Bank: paid 3 on 2025-01-04 18:00:00 - 2025-01-04 20:00:00"),
        "call:4": ("call", "call from Mother () 2025-01-03 20:15:00 - "),
        "sms:x": ("Ann Li", "no number"),
    }
    units: list[dict[str, Any]] = [
        {"id": name, "speaker": speaker, "text": text, "date": "2025-01-03T07:50:00Z"}
        for name, (speaker, text) in texts.items()
    ]
    units.append({"id": "photo:9", "text": "A lake", "kind": "photo", "where": "Bern", "with": ["Bo"]})
    data = read_items(write(tmp_path / "phone.json", [{"id": "p", "units": units}]))
    own = [{key: item.metadata[key] for key in FIELDS if key in item.metadata} for item in data.items]
    call = {"from": "2025-01-03 07:50:00", "to": "2025-01-03 07:53:15"}
    assert own == [
        {"kind": "call", "with": ["Ann Li"], **call},
        {"kind": "message", "with": ["Ann Li"]},
        {"kind": "event", "from": "2025-01-04 18:00:00", "to": "2025-01-04 20:00:00"},
        {"kind": "notification"},
        {"kind": "call", "with": ["Mother"]},
        {},
        {"kind": "photo", "with": ["Bo"], "where": "Bern"},
    ]
    assert data.items[0].content_summary == f"call: {texts['call:0'][1]}", "the text stays whole"


@pytest.mark.parametrize("document", [LONGMEMEVAL[:1], HISTORY])
def test_turns_of_longmemeval_keep_their_order_and_place(tmp_path: Path, document: object) -> None:
    data = read_items(write(tmp_path / "longmemeval.json.gz", document))
    assert data.form is DataForm.LONGMEMEVAL
    first, second, *_, last = data.items
    start = datetime(2023, 5, 20, 2, 21, tzinfo=UTC).timestamp()
    assert (first.id, first.content_summary) == ("q1/s_a/1", "user: Tell me about foxes.")
    assert (first.event_time, second.event_time) == (start, start + 1)
    assert first.scope == Scope(conversation="q1", session="s_a")
    assert (last.id, last.metadata) == ("q1/s_b/2", {"turn": 2, "speaker": "assistant"})


def test_memories_of_madial_bench_are_read(tmp_path: Path) -> None:
    timeless = {"9": {"event": "Lisa画画。", "user-id": 2}}
    data = read_items(write_lines(tmp_path / "memory.json", [*MEMORIES, timeless]))
    assert data.form is DataForm.MADIAL
    first, *_, last = data.items
    assert (first.id, first.content_summary, first.scope) == ("madial/1", "Bart在晚会上跳舞", Scope(user="1"))
    assert first.event_time == datetime(2023, 12, 25, tzinfo=UTC).timestamp()
    assert first.metadata == {"scene": "活动", "emotion": "开心"}
    assert (last.id, last.event_time) == ("madial/9", None)


def test_the_lines_of_a_data_set_are_imported_as_its_items(tmp_path: Path) -> None:
    path = write(tmp_path / "locomo.json", LOCOMO)
    printed = CliRunner().invoke(app, ["items", str(path)])
    assert printed.exit_code == 0
    lines = tmp_path / "turns.jsonl"
    lines.write_text(printed.output, encoding="utf-8")
    assert [described(one) for one in read_records(lines) if isinstance(one, MemoryItem)] == [
        described(one) for one in read_items(path).items
    ]
    refused = CliRunner().invoke(app, ["items", str(lines)], env={"COLUMNS": "200"})
    assert (refused.exit_code, "not a data set" in refused.output or "not JSON" in refused.output) == (2, True)


def described(item: MemoryItem) -> tuple[object, ...]:
    return item.id, item.content_summary, item.event_time, item.scope, item.metadata, item.trust
