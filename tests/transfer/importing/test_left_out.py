"""Parts of a file that become no record: bad ones are counted and named, the others counted by reason."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import DataFileError
from devmem.transfer.importing import open_data, read_records
from tests.transfer.reading import items_of, summaries


def node(key: str, above: str | None, text: str, **message: Any) -> dict[str, Any]:
    said = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": [text]}, **message}
    return {"id": key, "parent": above, "message": {"id": f"m-{key}", "create_time": 1743674400 + len(text), **said}}


def chatgpt(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    return {"title": name, "id": name, "mapping": {one["id"]: one for one in nodes}, "current_node": nodes[-1]["id"]}


def claude(*texts: str) -> dict[str, Any]:
    messages = [{"uuid": f"u-{text}", "sender": "human", "text": text, "created_at": "2025-04-03"} for text in texts]
    return {"uuid": "c", "name": "Mill", "chat_messages": messages}


def slack(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "user": "U1", "text": text, "ts": f"17436744{len(text):02}.000100", **more}


CASES: list[tuple[str, list[Any], list[str], str]] = [
    (
        "a conversation of ChatGPT",
        [{**chatgpt("a", node("1", None, "x")), "mapping": None}, chatgpt("b", node("1", None, "The mill is booked."))],
        ["user: The mill is booked."],
        "[0]: expected a conversation with `title` and `mapping`",
    ),
    (
        "a message of ChatGPT",
        [chatgpt("b", node("1", None, "x", content={"content_type": "text", "parts": 5}), node("2", "1", "Booked."))],
        ["user: Booked."],
        "[0].mapping['1']: 'content': expected text or a list of parts",
    ),
    (
        "a message of Claude",
        [{**claude("one", "two"), "chat_messages": [*claude("one")["chat_messages"], {"sender": "?"}]}, claude("two")],
        ["user: one", "user: two"],
        "[0].chat_messages[1]: 'sender': expected",
    ),
    (
        "a message of Slack",
        [{"type": "message", "text": "x"}, slack("Booked.")],
        ["U1: Booked."],
        "[0]: expected a mess",
    ),
    (
        "a turn of ShareGPT",
        [{"conversations": [{"from": "human", "value": "Hi."}]}, {"conversations": [5]}],
        ["user: Hi."],
        "[1].conversations[0]: expected a conversation",
    ),
    (
        "a memory of mem0",
        [{"id": 1, "memory": ""}, {"id": 2, "memory": "Tea"}],
        ["Tea"],
        "[0]: 'memory': expected text",
    ),
    ("a record of DevAll", [{"text": "one"}, 5, {"text": "two"}], ["one", "two"], "[1]: expected an object, found int"),
    ("a text", ["one", 5, "two"], ["one", "two"], "[1]: expected"),
]


@pytest.mark.parametrize(("_what", "document", "texts", "told"), CASES, ids=[case[0] for case in CASES])
def test_one_bad_record_is_counted_and_named_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, _what: str, document: list[Any], texts: list[str], told: str
) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    data = open_data(path)
    assert summaries(data.records) == texts
    assert data.left_out.unusable.count == 1
    assert f"records that cannot be used are left out: 1: {path}: {told}" in caplog.text
    with pytest.raises(DataFileError):
        list(read_records(path))


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz"])
def test_a_session_that_is_still_written_lacks_its_last_line_only(tmp_path: Path, name: str) -> None:
    said = {"type": "user", "uuid": "u1", "sessionId": "s", "message": {"role": "user", "content": "The mast is blue."}}
    text = (json.dumps(said) + '\n{"type":"assistant","uuid":"u2","mess').encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    data = open_data(path)
    assert summaries(data.records) == ["user: The mast is blue."]
    assert str(data.left_out.unusable.first[0]).startswith(f"{path}:2: the line is not JSON")


def test_a_list_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([claude("one"), claude("two")])[:-20], encoding="utf-8")
    data = open_data(path)
    assert summaries(data.records) == ["user: one"]
    assert data.left_out.unusable.count == 1


def test_what_the_program_put_in_the_place_of_the_user_is_told_apart(tmp_path: Path) -> None:
    note = "<system-reminder>Todo list\nis empty</system-reminder>"
    texts = [
        f"{note}The tests run with make check.",
        f"Use tabs. {note}",
        note,
        "What does <system-reminder> mean?",
        "<command-name>/clear</command-name> <command-args></command-args>",
        "Caveat: The messages below were generated by the user while running local commands.",
        "<b>Bold</b> is closed.",
    ]
    lines = [
        {"type": "user", "uuid": f"u{at}", "sessionId": "s", "message": {"role": "user", "content": text}}
        for at, text in enumerate(texts)
    ]
    summary = {**lines[0], "uuid": "c", "isCompactSummary": True}
    summary["message"] = {"role": "user", "content": "This session is being continued: the mast was painted."}
    path = tmp_path / "session.jsonl"
    path.write_text("\n".join(map(json.dumps, [*lines, summary])), encoding="utf-8")
    data = open_data(path)
    items = items_of(data.records)
    assert [item.content_summary for item in items] == [
        "user: The tests run with make check.",
        "user: Use tabs.",
        "user: What does <system-reminder> mean?",
        "user: <b>Bold</b> is closed.",
        "This session is being continued: the mast was painted.",
    ]
    assert [item.metadata.get("kind") for item in items] == [None] * 4 + ["summary"]
    assert sum(data.left_out.reasons.values()) >= 3


def test_the_words_of_slacks_blocks_are_read(tmp_path: Path) -> None:
    def section(*elements: dict[str, Any]) -> dict[str, Any]:
        return {"type": "rich_text_section", "elements": list(elements)}

    words = section(
        {"type": "text", "text": "Ask "}, {"type": "user", "user_id": "U2"}, {"type": "text", "text": " <today>"}
    )
    points = {
        "type": "rich_text_list",
        "elements": [section({"type": "text", "text": text}) for text in ("key", "map")],
    }
    build = {"type": "section", "text": {"type": "mrkdwn", "text": "Build 7 &amp; 8 <https://ci.example|failed>"}}
    messages = [
        slack("", blocks=[{"type": "rich_text", "elements": [words, points]}]),
        slack("", ts="1743674499.1", blocks=[build, {"type": "divider"}]),
        slack("Plain", blocks=[{"type": "rich_text", "elements": [section({"type": "text", "text": "Plain"})]}]),
        slack("joined", subtype="channel_join"),
        slack("Hi", user="U2", ts="1743674498.1", user_profile={"display_name": "Ben"}),
    ]
    path = tmp_path / "day.json"
    path.write_text(json.dumps(messages), encoding="utf-8")
    data = open_data(path)
    assert summaries(data.records) == [
        "U1: Ask @Ben <today>\nkey\nmap",
        "U1: Build 7 & 8 failed",
        "U1: Plain",
        "Ben: Hi",
    ]
    assert data.left_out.reasons == {"notices of the program": 1}


def test_what_is_no_memory_is_counted_by_reason(tmp_path: Path) -> None:
    prompt = node("0", None, "Be brief.", author={"role": "system"})
    old, new = node("1", "0", "When is it?"), node("2", "0", "When is the launch?")
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt("a", prompt, old, new)]), encoding="utf-8")
    data = open_data(path)
    assert len(list(data.records)) == 1
    assert data.left_out.reasons == {
        "prompts, thoughts, and calls and results of tools": 1,
        "answers that were replaced by others, with what followed them": 1,
    }


def telegram(name: str, texts: list[str]) -> dict[str, Any]:
    messages = [
        {"id": at, "type": "message", "from": "Ann", "date_unixtime": str(1743674400 + at), "text": text}
        for at, text in enumerate(texts)
    ]
    return {"name": name, "type": "private", "id": name, "messages": messages}


@pytest.mark.parametrize("kind", ["chatgpt", "claude", "telegram"])
def test_an_export_of_one_long_line_is_read_in_little_memory(tmp_path: Path, kind: str) -> None:
    """Of 40 MB, as those that people have, of which Python's own reader makes objects of many times the size.

    It is a list, or an object with a list of chats, each of which has one of messages.
    """

    def conversations(count: int) -> Iterator[dict[str, Any]]:
        for at in range(count):
            texts = [f"turn {at} {turn} {'word ' * 1000}" for turn in range(8000 // count)]
            nodes = [node(str(turn), str(turn - 1) if turn else None, text) for turn, text in enumerate(texts)]
            if kind == "telegram":
                yield telegram(f"c{at}", texts)
            else:
                yield chatgpt(f"c{at}", *nodes) if kind == "chatgpt" else {**claude(*texts), "uuid": f"c{at}"}

    def write(path: Path, exported: Iterator[dict[str, Any]]) -> None:
        around = ('{"chats": {"list": [', "]}}") if kind == "telegram" else ("[", "]")
        with path.open("w", encoding="utf-8") as file:
            file.write(around[0])
            for at, one in enumerate(exported):
                file.write(", " * bool(at) + json.dumps(one))
            file.write(around[1])

    small, path = tmp_path / "small.json", tmp_path / "conversations.json"
    write(small, islice(conversations(400), 1))
    write(path, conversations(4 if kind == "telegram" else 400))
    assert path.stat().st_size > 40_000_000
    program = (
        "import resource, sys\n"
        "from devmem.transfer.importing import open_data\n"
        "for at in 1, 2:\n"
        "    data = open_data(sys.argv[at])\n"
        "    count = len({(record.scope.conversation, record.id) for record in data.records})\n"
        "    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "    print(data.format, count, memory, data.left_out.unusable.count)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, small, path], capture_output=True, text=True, check=True)
    first, second = (line.split() for line in done.stdout.splitlines())
    assert (second[0], second[1], second[3]) == (kind, "8000", "0")
    assert int(second[2]) - int(first[2]) < 25_000, "KB beside what one conversation takes"
