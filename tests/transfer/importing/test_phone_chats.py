"""Chats of telephones: a message an item, with its speaker and its time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import DataFileError
from devmem.model.items import MemoryItem
from devmem.model.times import DateOrder
from devmem.transfer.importing import open_data

ANDROID = """\
12/31/23, 10:15 PM - Messages and calls are end-to-end encrypted. Tap to learn more.
12/31/23, 10:15 PM - Ann: Happy new year!
And a good start: to all.
1/1/24, 12:05\u202fAM - Bob Müller: <Media omitted>
1/1/24, 9:00 AM - Ann added Cem
1/1/24, 9:01 AM - +49 151 23: See you at 10:30
"""
IOS = """\
[31.12.23, 22:15:04] Ann: \u200eMessages and calls are end-to-end encrypted.
\u200e[31.12.23, 22:15:09] Ann: Guten Rutsch!
[01.01.24, 00:05:00] Bob: Danke
"""


def items(path: Path, **options: Any) -> list[MemoryItem]:
    return [record for record in open_data(path, **options).records if isinstance(record, MemoryItem)]


def at(*parts: int) -> float:
    year, month, day, hour, minute, second = (*parts, 0)[:6]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def test_a_chat_of_android_is_an_item_a_message(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat with Team.txt"
    path.write_text(ANDROID, encoding="utf-8")
    assert open_data(path).format == "whatsapp"
    assert [(item.content_summary, item.event_time) for item in items(path)] == [
        ("Ann: Happy new year!\nAnd a good start: to all.", at(2023, 12, 31, 22, 15)),
        ("Bob Müller: <Media omitted>", at(2024, 1, 1, 0, 5)),
        ("+49 151 23: See you at 10:30", at(2024, 1, 1, 9, 1)),
    ]
    assert {item.scope.conversation for item in items(path)} == {"Team"}
    assert len({item.id for item in items(path)}) == 3


def test_a_chat_of_ios_is_an_item_a_message(tmp_path: Path) -> None:
    path = tmp_path / "_chat.txt"
    path.write_text(IOS, encoding="utf-8")
    found = items(path)
    assert [(item.metadata["speaker"], item.event_time) for item in found[1:]] == [
        ("Ann", at(2023, 12, 31, 22, 15, 9)),
        ("Bob", at(2024, 1, 1, 0, 5)),
    ]


def test_day_and_month_that_nobody_can_tell_apart_are_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("03/04/2025, 10:00 - Ann: Hi\n", encoding="utf-8")
    with pytest.raises(DataFileError, match="--dates dmy` or `--dates mdy"):
        items(path)
    assert [items(path, dates=order)[0].event_time for order in DateOrder] == [
        at(2025, 4, 3, 10, 0),
        at(2025, 3, 4, 10, 0),
    ]


def test_the_order_of_the_messages_tells_day_and_month_apart(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_text("1/3/25, 10:00 - Ann: Hi\n1/4/25, 9:00 - Bob: Hi\n2/1/25, 9:00 - Ann: Bye\n", encoding="utf-8")
    assert [item.event_time for item in items(path)] == [
        at(2025, 1, 3, 10, 0),
        at(2025, 1, 4, 9, 0),
        at(2025, 2, 1, 9, 0),
    ]


def test_a_note_that_begins_with_a_date_is_text(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("2026-06-02 The launch.\n\nAnn gives the talk.\n", encoding="utf-8")
    assert open_data(path).format == "text"


CHAT = {
    "name": "Team",
    "type": "private_group",
    "id": 7,
    "messages": [
        {"id": 1, "type": "service", "date": "2025-04-03T10:00:00", "actor": "Ann", "action": "create_group"},
        {"id": 2, "type": "message", "date": "2025-04-03T10:00:00", "date_unixtime": "1743674400", "from": "Ann",
         "text": ["See ", {"type": "link", "text": "https://example.org"}, "!"]},
        {"id": 3, "type": "message", "date": "2025-04-03T10:01:00", "from": "Bob", "text": ""},
    ],
}  # fmt: skip


@pytest.mark.parametrize("document", [CHAT, {"chats": {"about": "", "list": [CHAT]}}], ids=["one", "all"])
def test_telegrams_chats_are_an_item_a_message(tmp_path: Path, document: object) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert open_data(path).format == "telegram"
    (item,) = items(path)
    assert (item.content_summary, item.event_time) == ("Ann: See https://example.org!", 1743674400.0)
    assert (item.scope.conversation, item.id) == ("Team", "telegram/7/2")
