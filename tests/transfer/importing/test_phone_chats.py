"""Chats of telephones: a message an item, with its speaker and its time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import devmem
from devmem.errors import DataFileError
from devmem.model.conditions import Order
from devmem.model.times import DateOrder
from devmem.transfer.filling import Filler
from devmem.transfer.importing.formats import open_data
from devmem.views.diagrams import transfers_of
from tests.cases import cases
from tests.transfer.reading import items, summaries

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


def at(*parts: int) -> float:
    year, month, day, hour, minute, second = (*parts, 0)[:6]
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def test_a_chat_of_android_is_an_item_a_message(tmp_path: Path) -> None:
    path = tmp_path / "WhatsApp Chat with Team.txt"
    path.write_text(ANDROID, encoding="utf-8")
    assert open_data(path).format == "whatsapp"
    assert [(item.content_summary, item.event_time) for item in items(path)] == [
        ("Ann: Happy new year!\nAnd a good start: to all.", at(2023, 12, 31, 22, 15)),
        ("+49 151 23: See you at 10:30", at(2024, 1, 1, 9, 1)),
    ]
    assert {item.scope.conversation for item in items(path)} == {"Team"}
    assert len({item.id for item in items(path)}) == 2


def test_a_chat_of_ios_is_an_item_a_message(tmp_path: Path) -> None:
    path = tmp_path / "_chat.txt"
    path.write_text(IOS, encoding="utf-8")
    assert [(item.metadata["speaker"], item.event_time) for item in items(path)] == [
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


@pytest.mark.parametrize(
    ("lines", "times"),
    [
        ("2025/4/3 上午9:05 - 王芳: 面包买了吗\n2025/4/3 下午1:40 - 陈刚: 买了", [(9, 5), (13, 40)]),
        ("[2025/4/3 凌晨12:05:11] 王芳: 睡了吗\n[2025/4/3 中午12:40:02] 陈刚: 没有", [(0, 5, 11), (12, 40, 2)]),
        ("2025. 4. 3. 오전 9:05, 수진 : 빵 샀어?\n2025. 4. 3. 오후 1:40, 준호 : 응", [(9, 5), (13, 40)]),
        ("\u200f3\u200f/4\u200f/2025، 9:05 ص - سلمى: خبز؟\n3/4/2025، 1:40 م - كريم: نعم", [(9, 5), (13, 40)]),
        ("3/4/2025, 9:05 a. m. - Eva: ¿pan?\n3/4/2025, 1:40 p. m. - Raúl: sí", [(9, 5), (13, 40)]),
        ("3.4.2025 klo 9.05 - Aino: leipää?\n3.4.2025 klo 13.40 - Eero: joo", [(9, 5), (13, 40)]),
    ],
)
def test_a_chat_is_read_in_the_forms_of_its_language(tmp_path: Path, lines: str, times: list[tuple[int, ...]]) -> None:
    """All on April 3rd: without being asked, as no other day is possible or is written so."""
    path = tmp_path / "chat.txt"
    path.write_text(lines, encoding="utf-8")
    assert open_data(path).format == "whatsapp"
    assert [item.event_time for item in items(path)] == [at(2025, 4, 3, *time) for time in times]
    assert all(len(str(item.metadata["speaker"])) < 6 for item in items(path))


@pytest.mark.parametrize(
    ("said", "kept", "reason"), cases("transfer_phone_chats", "media_deleted_messages_and_notices_are_no_memories")
)
def test_media_deleted_messages_and_notices_are_no_memories(
    tmp_path: Path, said: str, kept: str | None, reason: str
) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(f"03.04.25, 09:05 - Uta: {said}\n03.04.25, 09:06 - Jan: Ja\n", encoding="utf-8")
    data = open_data(path)
    texts = summaries(data.records)
    assert texts == [*([f"Uta: {kept}"] if kept else []), "Jan: Ja"]
    assert sum(count for name, count in data.left_out.reasons.items() if reason and reason in name) == (kept is None)


def test_messages_of_one_minute_keep_their_order_wherever_they_are_listed(tmp_path: Path) -> None:
    path, said = tmp_path / "chat.txt", list("EDCBAFG")
    path.write_text("".join(f"03.04.25, 09:05 - Uta: {text}\n" for text in said), encoding="utf-8")
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        filler = Filler(memory.store)
        # As another program may have stored them.
        for item in reversed(items(path)):
            filler.put(item)
        filler.flush()
        listed = memory.store.recent(9, order=Order.EVENT)
        assert [item.content_summary for item in listed][::-1] == [f"Uta: {text}" for text in said]
        assert [one.text for one in transfers_of(listed)] == [f"Uta: {text}" for text in said]


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
