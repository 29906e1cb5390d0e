"""Exports of further programs: Open WebUI, Discord, Facebook and Instagram, Google Keep, MCP's memory, and contacts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devmem import MemoryItem
from devmem.model.times import parse_time
from devmem.transfer.importing.formats import DataFile, open_data
from tests.transfer.reading import items_of


def opened(path: Path, document: object, data_format: str) -> tuple[DataFile, list[MemoryItem]]:
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    data = open_data(path)
    items = items_of(data.records)
    assert data.format == data_format
    assert [item.id for item in items] == [item.id for item in open_data(path).records if isinstance(item, MemoryItem)]
    assert len({item.id for item in items}) == len(items)
    return data, items


def test_open_webui_gives_the_branch_that_is_shown(tmp_path: Path) -> None:
    def message(key: str, above: str | None, role: str, content: str, **more: Any) -> dict[str, Any]:
        return {"id": key, "parentId": above, "role": role, "content": content, "timestamp": 1743674400, **more}

    thought = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> hm\n</details>\n'
    messages = [
        message("a", None, "user", "Where is the launch?", files=[{"name": "plan.pdf"}]),
        message("b", "a", "assistant", "No idea."),
        message("c", "a", "assistant", f"{thought}At the Old Mill."),
    ]
    history = {"messages": {one["id"]: one for one in messages}, "currentId": "c"}
    chats = [{"id": "w1", "title": "Launch", "chat": {"history": history, "messages": []}}, {"id": "w2", "chat": {}}]
    data, (asked, answered) = opened(tmp_path / "chats.json", chats[:1] + chats[1:], "open-webui")
    assert asked.content_summary == "user: Where is the launch?\n[file: plan.pdf]"
    assert answered.content_summary == "assistant: At the Old Mill."
    assert (asked.event_time, asked.scope.conversation, asked.metadata["title"]) == (1743674400.0, "w1", "Launch")
    assert [item.metadata.get("sequence") for item in (asked, answered)] == [None, 1]
    assert data.left_out.unusable.count == 1


def test_a_channel_of_discord_is_an_item_a_message(tmp_path: Path) -> None:
    def message(key: str, content: str, **more: Any) -> dict[str, Any]:
        author = {"id": "7", "name": "ann", "nickname": "Ann"}
        return {"id": key, "type": "Default", "timestamp": "2025-04-03T10:00:00+00:00", "content": content,
                "author": author, **more}  # fmt: skip

    document = {
        "guild": {"id": "1", "name": "Team"},
        "channel": {"id": "2", "name": "launch"},
        "messages": [
            message("10", "The mill is booked."),
            message("11", "", attachments=[{"fileName": "plan.pdf"}], type="Reply"),
            message("12", "Joined the server.", type="GuildMemberJoin"),
            {"id": "13"},
        ],
    }
    data, items = opened(tmp_path / "launch.json", document, "discord")
    assert [item.content_summary for item in items] == ["Ann: The mill is booked.", "Ann: [file: plan.pdf]"]
    assert (items[0].id, items[0].scope.conversation) == ("discord/10", "launch")
    assert items[0].event_time == parse_time("2025-04-03T10:00:00Z")
    assert (data.left_out.unusable.count, sum(data.left_out.reasons.values())) == (1, 1)


def test_a_chat_of_facebook_or_instagram_begins_with_its_oldest_message(tmp_path: Path) -> None:
    name = "Zoë".encode().decode("latin-1")
    document = {
        "participants": [{"name": name}, {"name": "Ann"}],
        "messages": [
            {"sender_name": "Ann", "timestamp_ms": 1743674460000, "content": "Gone", "is_unsent": True},
            {"sender_name": name, "timestamp_ms": 1743674460000, "content": "Für dich 🍰".encode().decode("latin-1")},
            {"sender_name": "Ann", "timestamp_ms": 1743674460000, "content": "What is it?"},
            {"sender_name": "Ann", "timestamp_ms": 1743674400000, "photos": [{"uri": "a.jpg"}]},
        ],
        "title": name,
        "thread_path": "inbox/zoe_1",
    }
    data, items = opened(tmp_path / "message_1.json", document, "facebook")
    assert [item.content_summary for item in items] == ["Ann: What is it?", "Zoë: Für dich 🍰"]
    assert [item.metadata.get("sequence") for item in items] == [None, 1]
    assert {(item.event_time, item.scope.conversation) for item in items} == {(1743674460.0, "Zoë")}
    assert len(data.left_out.reasons) == 2


def test_a_note_of_google_keep_is_an_item(tmp_path: Path) -> None:
    note = {
        "isTrashed": False,
        "title": "Shopping",
        "textContent": "",
        "listContent": [{"text": "bread", "isChecked": True}, {"text": "milk", "isChecked": False}],
        "labels": [{"name": "home"}],
        "createdTimestampUsec": 1743674400000000,
        "userEditedTimestampUsec": 1743674500000000,
    }
    _, (item,) = opened(tmp_path / "Shopping.json", note, "keep")
    assert item.content_summary == "Shopping\n- [x] bread\n- [ ] milk"
    assert (item.event_time, item.metadata) == (1743674400.0, {"title": "Shopping", "tags": ["home"]})
    data, items = opened(tmp_path / "Old.json", {**note, "isTrashed": True}, "keep")
    assert (items, data.left_out.reasons) == ([], {"notes in the trash": 1})


def test_the_graph_of_the_mcp_memory_server_is_an_item_an_observation(tmp_path: Path) -> None:
    lines = [
        {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Plays chess", "Lives in Bern"]},
        {"type": "entity", "name": "Mill", "entityType": "place", "observations": []},
        {"type": "relation", "from": "Ann", "to": "Mill", "relationType": "works_at"},
        {"type": "relation", "from": "Ann"},
    ]
    data, items = opened(tmp_path / "memory.jsonl", "\n".join(map(json.dumps, lines)), "mcp-memory")
    assert [item.content_summary for item in items] == [
        "Ann: Plays chess", "Ann: Lives in Bern", "Mill: place", "Ann works at Mill"
    ]  # fmt: skip
    assert items[0].metadata == {"entity": "Ann", "entity_type": "person"}
    assert data.left_out.unusable.count == 1


def test_a_contact_is_an_item(tmp_path: Path) -> None:
    card = """BEGIN:VCARD\r
VERSION:3.0\r
N:Müller;Ann;;;\r
FN:Ann Müller\r
ORG:Old Mill;Events\r
TEL;TYPE=CELL,VOICE:+49 151 23\r
item1.EMAIL;TYPE=INTERNET:ann@exam\r
 ple.org\r
ADR;TYPE=HOME:;;Mill Lane 1;Bern;;3000;Switzerland\r
BDAY:1990-05-01\r
NOTE:Likes tea\\, no milk\r
PHOTO;ENCODING=b;TYPE=JPEG:AAAA\r
END:VCARD\r
BEGIN:VCARD\r
VERSION:2.1\r
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:Ro=C3=A9;Ben\r
TEL;CELL:12\r
END:VCARD\r
BEGIN:VCARD\r
TEL:13\r
END:VCARD\r
"""
    data, items = opened(tmp_path / "contacts.vcf", card, "vcard")
    assert [item.content_summary.splitlines() for item in items] == [
        [
            "Ann Müller",
            "organisation: Old Mill, Events",
            "phone (cell): +49 151 23",
            "email (internet): ann@example.org",
            "address (home): Mill Lane 1, Bern, 3000, Switzerland",
            "birthday: 1990-05-01",
            "note: Likes tea, no milk",
        ],
        ["Ben Roé", "phone (cell): 12"],
    ]
    assert "contacts.vcf:19: the contact has no name" in str(data.left_out.unusable)
