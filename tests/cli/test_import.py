"""`devmem import`."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryContentSnapshot, MemoryWritePayload, WriteOutcome
from devmem.errors import CollectionUnwritableError
from devmem.storage import SqliteCollection
from devmem.workflow import dump_write

from .conftest import Devmem, one_paragraph


def shown(devmem: Devmem, workflow: Path, store: str = "notes") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(devmem("list", workflow, store, "-n", "1000", "--json").stdout)
    return items


def test_importing_twice_stores_nothing_twice(filled: Path, devmem: Devmem, tmp_path: Path) -> None:
    before = shown(devmem, filled)
    result = devmem("import", filled, "notes", tmp_path / "data.jsonl")
    assert result.stdout.splitlines() == [
        f"{tmp_path / 'data.jsonl'}: 3 duplicate",
        "notes: 3 duplicate; the store has 3 items now",
    ]
    assert shown(devmem, filled) == before


def test_several_files_and_more_than_a_batch(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    files = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for file in files:
        lines = (json.dumps({"text": f"Turn {n} of {file.name}."}) for n in range(300))
        file.write_text("\n".join(lines), encoding="utf-8")
    result = devmem("import", workflow, "notes", *files)
    assert f"{files[0]}: 300 stored" in result.stdout
    assert "notes: 600 stored; the store has 600 items now" in result.stdout


def test_a_dry_run_stores_nothing(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    assert devmem("import", workflow, "notes", data, "--dry-run").stdout == (
        f"{data}: jsonl: 2 records, all usable\n  one\n  two\n"
    )
    assert not (tmp_path / "notes.db").exists()
    data.write_text('{"text": "one"}\n{"no": 1}\n', encoding="utf-8")
    told = devmem("import", workflow, "notes", data, "--dry-run", code=1)
    assert f"{data}:2: no text" in told.stderr
    assert told.stdout == f"{data}: jsonl: 1 records; left out: 1 that cannot be used\n  one\n"


def test_a_bad_record_is_named_and_the_others_are_stored(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    lines = [json.dumps({"text": f"Turn {n}."}) for n in range(200)]
    data.write_text("\n".join([*lines[:100], '{"text": 5.5}', *lines[100:]]), encoding="utf-8")
    done = devmem("import", workflow, "notes", data, code=1)
    assert f"{data}: records that cannot be used are left out: 1: {data}:101: 'text': expected text" in done.stderr
    assert f"{data}: 200 stored; left out: 1 that cannot be used\n" in done.stdout
    (read,) = json.loads(devmem("import", workflow, "notes", data, "--json", code=1).stdout)["files"]
    assert read == {"file": str(data), "format": "jsonl", "counts": {"duplicate": 200}, "unusable": 1}
    data.write_text("\n".join([*lines, '{"text": "mended"}']), encoding="utf-8")
    assert "200 duplicate, 1 stored" in devmem("import", workflow, "notes", data).stdout
    data.write_text('{"text": 5.5}\n{"text": 6.5}\n', encoding="utf-8")
    assert f"{data}:1: 'text': expected text" in one_paragraph(devmem("import", workflow, "notes", data, code=2))


def test_an_import_of_a_folder_never_stops_at_a_file(devmem: Devmem, tmp_path: Path) -> None:
    folder, store = tmp_path / "data", tmp_path / "notes.db"
    folder.mkdir()
    (folder / "a.json").write_text('{"theme": "dark"}', encoding="utf-8")
    (folder / "b.csv").write_text("text,date\nThe tram stops.,03/04/2025\n", encoding="utf-8")
    (folder / "c.jsonl").write_text('{"text": "Ann plays chess."}\n', encoding="utf-8")
    (folder / "d.zip").write_bytes(b"PK")
    for options in ([], ["--dry-run"]):
        done = devmem("import", store, folder, *options, code=1)
        for told in ("a.json: unrecognised format", "b.csv:2: 'time': not clear whether", "d.zip: unrecognised format"):
            assert f"error: left out: {folder}/{told}" in done.stderr
    read = json.loads(devmem("import", store, folder, "--json", code=1).stdout)
    assert [sorted(one) for one in read["files"]] == [["error", "file"]] * 2 + [["counts", "file", "format"]] + [
        ["error", "file"]
    ]
    assert read["items"] == 1
    (folder / "c.jsonl").unlink()
    assert "no file could be read" in devmem("import", store, folder, code=2).stderr


@pytest.mark.parametrize(
    ("error", "code", "stored", "told"),
    [
        (
            CollectionUnwritableError("notes.db", "the disk is full"),
            2,
            256,
            "error: {data}: the import stopped after 256 stored; the records after them are not stored: ",
        ),
        (
            KeyboardInterrupt(),
            130,
            128,
            "{data}: 128 stored before the interruption. Run the same command again to go on",
        ),
    ],
    ids=["full disk", "interruption"],
)
def test_an_import_that_is_stopped_says_what_was_stored_and_how_it_goes_on(
    workflow: Path,
    devmem: Devmem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    stored: int,
    told: str,
) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join(json.dumps({"text": f"Turn {n}."}) for n in range(300)), encoding="utf-8")
    add, batches = SqliteCollection.add, iter(range(9))

    def fail_later(self: SqliteCollection, *arguments: Any, **options: Any) -> list[WriteOutcome]:
        if next(batches) == stored // 128:
            raise error
        return add(self, *arguments, **options)

    monkeypatch.setattr(SqliteCollection, "add", fail_later)
    said = devmem("import", workflow, "notes", data, code=code).stderr
    assert said.startswith(told.format(data=data))
    assert str(error) in said
    assert "Traceback" not in said
    assert "Run the same command" in said
    monkeypatch.undo()
    assert len(shown(devmem, workflow)) == stored
    assert f"{stored} duplicate, {300 - stored} stored" in devmem("import", workflow, "notes", data).stdout


def test_what_has_expired_is_counted_and_not_stored(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "old", "expires_at": "2001-01-01"}\n{"text": "new"}', encoding="utf-8")
    assert "notes: 1 expired, 1 stored; the store has 1 item now" in devmem("import", workflow, "notes", data).stdout


def test_rescued_writes_go_through_the_store_once(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    payloads = [
        MemoryWritePayload(inputs_text="Where is it?", output_snapshot=MemoryContentSnapshot(text=text), source="a")
        for text in ("It is at the old mill.", "It is at the lakehouse.")
    ]
    data = tmp_path / "unsaved.jsonl"
    data.write_text("".join(dump_write(payload) + "\n" for payload in payloads), encoding="utf-8")
    for store in ("notes", "board"):
        assert "2 stored" in devmem("import", workflow, store, data).stdout
        assert "2 duplicate" in devmem("import", workflow, store, data).stdout
        assert len(shown(devmem, workflow, store)) == 2
    assert "Output: It is at the lakehouse." in shown(devmem, workflow)[0]["text"]


def test_what_a_store_skips_is_counted_with_the_reasons(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    data = tmp_path / "unsaved.jsonl"
    payloads = [MemoryWritePayload(inputs_text=text) for text in ("?!", " ", "...", "")]
    data.write_text("".join(dump_write(payload) + "\n" for payload in payloads), encoding="utf-8")
    result = devmem("import", workflow, "notes", data)
    assert "notes: 2 stored, 2 skipped; the store has 2 items now" in result.stdout
    assert result.stderr.splitlines() == ["warning: 2 skipped: neither the input nor the output has a text"]


def test_of_many_reasons_the_most_frequent_are_shown(
    make_workflow: Callable[[str], Path], devmem: Devmem, tmp_path: Path
) -> None:
    workflow = make_workflow("memory: [{name: role, type: long_term, config: {memory_path: role.db, watch: [plan]}}]\n")
    data = tmp_path / "messages.jsonl"
    actions = [f"act{number}" for number in range(1, 6) for _ in range(6 - number)]
    payloads = [MemoryWritePayload(inputs_text="Hello.", metadata={"cause_by": action}) for action in actions]
    data.write_text("".join(dump_write(payload) + "\n" for payload in payloads), encoding="utf-8")
    result = devmem("import", workflow, "role", data)
    assert result.stderr.splitlines() == [
        *(f"warning: {6 - number} skipped: 'act{number}' is not watched; watched are plan" for number in (1, 2, 3)),
        "warning: and 2 more reasons",
    ]


def test_a_store_that_takes_no_writes_says_so(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    store = "memory: [{name: manual, type: file, config: {index_path: m.db, file_sources: [{path: data.jsonl}]}}]\n"
    workflow.write_text(store, encoding="utf-8")
    result = devmem("import", workflow, "manual", data)
    assert "manual: 2 skipped" in result.stdout
    assert "warning: 2 skipped: read-only: a file store holds what its files say" in result.stderr


def test_a_store_of_one_process_is_not_filled(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    """The import would be lost when the command ends."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "one"}\n', encoding="utf-8")
    assert "for one process only" in one_paragraph(devmem("import", workflow, "passing", data, code=2))


def test_files_that_cannot_be_used_are_one_paragraph(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    missing = devmem("import", workflow, "notes", tmp_path / "nothing.jsonl", code=2)
    assert "nothing.jsonl: the file cannot be read" in one_paragraph(missing)
    assert "unrecognised format" in one_paragraph(devmem("import", workflow, "notes", _json(tmp_path, [1]), code=2))
    assert "it begins with 'memory:'" in one_paragraph(devmem("import", workflow, "notes", workflow, code=2))
    forced = devmem("import", workflow, "notes", _json(tmp_path, [{}]), "--format", "sharegpt", code=2)
    assert "expected a conversation" in one_paragraph(forced)


def _json(folder: Path, value: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("options", "text", "told"),
    [
        ([], '{"text": ""}\n', "standard input:1: 'text'"),
        ([], '[{"text": "One"', "standard input:1: the file is not JSON"),
        (["--format", "outbox"], "A", "standard input: a SQLite file that is not an outbox"),
        (["--format", "csv", "--column", "text=Body"], "Town\nOslo\n", "standard input: there is no column 'Body'"),
    ],
)
def test_what_is_wrong_in_standard_input_names_it(
    devmem: Devmem, tmp_path: Path, options: list[str], text: str, told: str
) -> None:
    """Not the file that it is kept in meanwhile."""
    assert told in one_paragraph(devmem("import", tmp_path / "a.db", "-", *options, stdin=text, code=2))


def test_a_guessed_encoding_of_standard_input_names_it(devmem: Devmem, tmp_path: Path) -> None:
    """And an item names its source."""
    said = devmem("import", tmp_path / "a.db", "-", "--format", "text", stdin="Le café est fermé.\n".encode("cp1252"))
    assert "standard input is not UTF-8 and was read as" in said.stderr
    (item,) = json.loads(devmem("list", tmp_path / "a.db", "--json").stdout)
    assert item["source"] == "standard input"


def test_other_facts_take_the_place_of_the_older(devmem: Devmem, tmp_path: Path) -> None:
    """Whatever a record says is stored, also where its text is known."""
    data, place, told = tmp_path / "data.jsonl", tmp_path / "a.db", "stored"
    record: dict[str, Any] = {"id": "d1", "text": "The plan."}
    draft, final = {"metadata": {"state": "draft"}}, {"metadata": {"state": "final"}}
    for facts in ({}, draft, final, {"time": "2026-05-08"}, {"time": "2026-05-09"}, {"trust": 0.25}):
        record |= facts
        data.write_text(json.dumps(record), encoding="utf-8")
        assert devmem("import", place, data).stdout.splitlines()[0] == f"{data}: 1 {told}"
        told = "superseded"
    assert "1 duplicate" in devmem("import", place, data).stdout
    (item,) = json.loads(devmem("list", place, "--json").stdout)
    assert (item["time"], item["trust"]) == ("2026-05-09T00:00:00Z", 0.25)
    assert item["metadata"] == {"state": "final"}


def test_the_last_record_of_an_id_is_kept(devmem: Devmem, tmp_path: Path) -> None:
    """Also where an earlier one of the same file has other contents."""
    data, place = tmp_path / "data.jsonl", tmp_path / "a.db"
    data.write_text("".join(f'{{"id": "d1", "text": "Plan {n}."}}\n' for n in "112"), encoding="utf-8")
    told = devmem("import", place, data)
    assert told.stdout.splitlines()[0] == f"{data}: 1 duplicate, 1 stored, 1 superseded"
    assert "1 item has other content now than before under the same id: d1" in told.stderr
    assert [each["text"] for each in json.loads(devmem("list", place, "--json").stdout)] == ["Plan 2."]


def test_what_a_duplicate_keeps_is_reported(devmem: Devmem, tmp_path: Path) -> None:
    """Facts that a record lacks stay, as they may be added by hand; an expiry may be counted from the import."""
    data, place = tmp_path / "data.jsonl", tmp_path / "a.db"
    data.write_text('{"id": "d1", "text": "The plan.", "expires_at": "2999-01-01"}', encoding="utf-8")
    devmem("import", place, data)
    assert "duplicates" not in devmem("import", place, data).stderr
    devmem("update", place, "d1", "--metadata", "room=6", "--time", "2026-05-08", "--expires-at", "2999-02-01")
    again = devmem("import", place, data)
    assert again.stdout.splitlines()[0] == f"{data}: 1 duplicate"
    assert (
        "duplicates stay as they are where the file differs: metadata.room of 1, event_time of 1, "
        "expires_at of 1; `devmem update` changes them" in " ".join(again.stderr.split())
    )


def test_a_table_is_imported_by_the_columns_that_are_named(devmem: Devmem, tmp_path: Path) -> None:
    table = tmp_path / "mails.csv"
    table.write_text("Body,Sent,Ward\nThe launch moved.,2024-05-01,north\n", encoding="utf-8")
    assert "no column is named" not in devmem("import", tmp_path / "a.db", table, "--dry-run").stdout
    columns = ("--column", "time=Sent", "--column", "text=Ward")
    assert devmem("import", tmp_path / "a.db", table, *columns).stdout.splitlines()[0] == f"{table}: 1 stored"
    (item,) = json.loads(devmem("list", tmp_path / "a.db", "--json").stdout)
    assert (item["text"], item["metadata"]) == ("north", {"Body": "The launch moved."})
    assert (
        "there is no column 'Town'"
        in devmem("import", tmp_path / "a.db", table, "--column", "text=Town", code=2).stderr
    )
    assert "write KEY=NAME" in devmem("import", tmp_path / "a.db", table, "--column", "text", code=2).stderr


def test_standard_input_is_a_file_of_any_format(devmem: Devmem, tmp_path: Path) -> None:
    lines = '{"text": "One."}\n{"text": "Two."}\n'
    assert "2 stored" in devmem("import", tmp_path / "a.db", "-", stdin=lines).stdout
    told = devmem("import", tmp_path / "a.db", "-", "--format", "text", "--dry-run", stdin="A\n\nB\n").stdout
    assert "text: 2 records, all usable" in told
    refused = devmem("import", tmp_path / "a.db", "-", stdin="A\n", code=2).stderr
    assert "error: standard input: unrecognised format" in refused
    assert "--format text reads it as plain text" in " ".join(refused.split())


SAMPLES = Path(__file__).parents[1] / "data" / "imports"
SLACK = {
    "users.json": [{"id": "U1", "name": "ann", "profile": {"display_name": "Ann"}}],
    "channels.json": [{"id": "C1", "name": "general", "members": ["U1"]}],
    "general/2025-04-03.json": [
        {"type": "message", "user": "U1", "text": "The launch is in June.", "ts": "1743674400.1"}
    ],
}


def test_a_zip_file_and_a_folder_and_a_pattern_are_imported(devmem: Devmem, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "slack.zip", "w") as archive:
        for name, document in SLACK.items():
            archive.writestr(name, json.dumps(document))
        archive.writestr("../outside.txt", "nobody")
    vault = tmp_path / "vault"
    (vault / ".trash").mkdir(parents=True)
    (vault / "a.md").write_text("# Rooms\n\nThe red room is upstairs.\n", encoding="utf-8")
    (vault / ".trash" / "old.md").write_text("gone\n", encoding="utf-8")
    (vault / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "b1.txt").write_text("The code is 4711.\n", encoding="utf-8")
    file = tmp_path / "notes.db"
    done = devmem("import", file, tmp_path / "slack.zip", vault, tmp_path / "b*.txt")
    assert "users.json" not in done.output, "it names the users, and lacks nothing"
    texts = [item["text"] for item in json.loads(devmem("list", file, "--json").stdout)]
    assert sorted(texts)[:2] == ["Ann: The launch is in June.", "The code is 4711."]
    assert not (tmp_path.parent / "outside.txt").exists()
    (tmp_path / "empty").mkdir()
    assert "no data file is in it" in one_paragraph(devmem("import", file, tmp_path / "empty", code=2))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "mails.mbox",
            "mbox: 4 records, all usable; from 2024-05-01 .* to 2024-05-03 .*; speakers: Ann Müller \\(2\\), ben@",
        ),
        (
            "table.csv",
            "csv: 2 records, all usable; from 2024-05-01 .* to 2024-05-02 .*; speakers: Ann \\(1\\), Ben \\(1\\)",
        ),
    ],
)
def test_a_dry_run_shows_what_was_understood(devmem: Devmem, tmp_path: Path, name: str, told: str) -> None:
    said = " ".join(devmem("import", tmp_path / "a.db", SAMPLES / name, "--dry-run").stdout.split())
    assert re.search(told, said)
    (file,) = json.loads(devmem("import", tmp_path / "a.db", SAMPLES / name, "--dry-run", "--json").stdout)["files"]
    assert file["last"] >= file["first"]
    assert not (tmp_path / "a.db").exists()


def test_dates_that_may_be_two_days_are_asked_about_once_and_store_nothing(devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Text;Datum\na;none\nb;03/04/2025\nc;05/06/2025\n", encoding="utf-8")
    refused = one_paragraph(devmem("import", tmp_path / "a.db", tmp_path / "a.csv", code=2))
    assert "a.csv:3: 'time': not clear whether the day or the month comes first: '03/04/2025'" in refused
    assert refused.count("--dates dmy") == 1
    assert not (tmp_path / "a.db").exists() or not json.loads(devmem("list", tmp_path / "a.db", "--json").stdout)
    told = devmem("import", tmp_path / "a.db", tmp_path / "a.csv", "--dates", "dmy", "--dry-run").stdout
    assert "3 records, all usable; from 2025-04-03" in told


def test_items_become_those_of_the_user_that_is_named(devmem: Devmem, tmp_path: Path) -> None:
    chat = tmp_path / "chat.txt"
    chat.write_text("02/06/2026, 21:05 - Tom: Did you water the plants?\n03/06/2026, 8:15 - Ann: Yes.\n")
    own = tmp_path / "own.jsonl"
    own.write_text('{"id": "n1", "text": "Bob prefers tabs.", "user": "bob"}\n{"id": "n2", "text": "It rains."}\n')
    store = tmp_path / "notes.db"
    assert "2 stored" in devmem("import", store, chat, "--dates", "dmy", "--user", "ann", "--agent", "phone").output
    assert "2 stored" in devmem("import", store, chat, "--dates", "dmy", "--user", "bob").output
    again = devmem("import", store, chat, "--dates", "dmy", "--user", "ann", "--agent", "phone").output
    assert "2 duplicate" in again, "what is stored already in a scope is not stored twice there"
    assert "2 stored" in devmem("import", store, own, "--user", "ann").output

    def users(text: str) -> list[str]:
        found = json.loads(devmem("search", store, text, "--all-users", "--json", "-k", "9").output)
        return sorted(str(item.get("user")) for item in found if text in item["text"])

    assert users("plants") == ["ann", "bob"]
    assert users("tabs") == ["bob"], "a record that names its user keeps it"
    assert users("rains") == ["ann"]
    assert "user of 1" in devmem("import", store, own, "--user", "carl").output, "an id is one item's"
    assert "empty" in devmem("import", store, own, "--user", "", code=2).output


def test_files_of_one_conversation_are_kept_whole(devmem: Devmem, tmp_path: Path) -> None:
    """Without ids and times only the place tells one "Done." from another; the same file is known again."""
    said = [text for number in range(30) for text in (f"Order {number}, please.", "Done.")]
    lines = [
        json.dumps({"text": text, "role": ("user", "assistant")[at % 2], "conversation": "c", "user": "ann"})
        for at, text in enumerate(said)
    ]
    files = [tmp_path / f"part{number}.jsonl" for number in range(3)]
    for number, file in enumerate(files):
        file.write_text("\n".join(lines[20 * number : 20 * number + 20]), encoding="utf-8")
        assert "20 stored" in devmem("import", tmp_path / "notes.db", file).stdout
    assert "60 items now" in devmem("import", tmp_path / "notes.db", *files).stdout
    files[2].write_text("\n".join([*lines[40:], *lines[:4]]), encoding="utf-8")
    assert "20 duplicate, 4 stored" in devmem("import", tmp_path / "notes.db", files[2]).stdout


def test_equal_records_and_conversations_of_a_file_are_all_kept(devmem: Devmem, tmp_path: Path) -> None:
    check = {"text": "All pumps run.", "speaker": "pump", "time": "2026-05-01T12:00:00Z"}
    talk = [{"role": "user", "content": "status?"}, {"role": "assistant", "content": "Done."}]
    for name, records, count in (("checks", [check] * 10, 10), ("talks", [{"messages": talk}] * 10, 20)):
        file = tmp_path / f"{name}.jsonl"
        file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        assert f"{count} stored" in devmem("import", tmp_path / f"{name}.db", file).stdout
        assert f"{count} duplicate" in devmem("import", tmp_path / f"{name}.db", file).stdout
