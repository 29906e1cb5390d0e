"""`devmem search`, `list` and `stores`: looking into a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from devmem import open as open_memory
from devmem.storage import StoreMetadata, inspect_location
from tests.cases import cases

from .conftest import Devmem, one_paragraph


def ids(result_json: str) -> list[str]:
    return [hit["id"] for hit in json.loads(result_json)]


def search_all(devmem: Devmem, workflow: Path, *arguments: str) -> Result:
    """Search the items of every user."""
    return devmem("search", workflow, "notes", "--all-users", *arguments)


def test_a_search_lists_items_with_score_date_and_id(filled: Path, devmem: Devmem) -> None:
    shown = search_all(devmem, filled, "When is the deadline?").stdout.splitlines()
    assert len(shown) == 4
    assert shown[0].startswith("1. 0.")
    assert "  2025-" in shown[0]
    assert {shown[0].split()[-1], shown[2].split()[-1]} == {"d1", "d2"}
    assert "   Mara: The deadline is on 12 June." in shown


def test_explain_has_every_signal(filled: Path, devmem: Devmem) -> None:
    shown = devmem(
        "search", filled, "notes", "--all-users", "deadline moved", "--explain", "--top-k", "1"
    ).stdout.splitlines()
    heading, signals, why, text = shown[:4]
    assert heading.startswith("1. 0.")
    assert heading.endswith("2025-05-20 10:00  d2")
    assert "lexical 1." in signals
    assert why.startswith("   why: ")
    assert "match +0." in why
    assert text == "   Jonas: The deadline moved to 26 June."
    assert any(line.startswith("   d1: beyond the number that was asked for; score 0.") for line in shown)
    assert "candidates" in shown[-1]


@pytest.mark.parametrize(
    ("asked", "told", "field", "value", "option", "without"),
    cases("cli_looking", "what_was_searched_for_instead_is_named_and_can_be_turned_off"),
    ids=["small talk", "a misspelled word"],
)
def test_what_was_searched_for_instead_is_named_and_can_be_turned_off(
    filled: Path, devmem: Devmem, asked: str, told: str, field: str, value: object, option: str, without: str
) -> None:
    assert told in " ".join(search_all(devmem, filled, asked, "--explain").stdout.split())
    assert json.loads(search_all(devmem, filled, asked, "--explain", "--json").stdout)[field] == value
    plain = filled.read_text(encoding="utf-8")
    changed = plain.replace("{memory_path: notes.db}", f"{{memory_path: notes.db, retrieval: {{{option}: false}}}}")
    assert changed != plain
    filled.write_text(changed, encoding="utf-8")
    assert without not in search_all(devmem, filled, asked, "--explain").stdout
    assert json.loads(search_all(devmem, filled, asked, "--explain", "--json").stdout)[field] != value


def test_search_gives_json(filled: Path, devmem: Devmem) -> None:
    (hit,) = json.loads(search_all(devmem, filled, "moved", "--json", "-k", "1").stdout)
    assert hit["id"] == "d2"
    assert hit["waiting"] is False
    assert hit["metadata"] == {"speaker": "Jonas"}
    assert (hit["source_kind"], hit["source"], hit["parents"]) == ("import", "data.jsonl", [])
    assert "embedding" not in hit


def test_conversations_instead_of_items(filled: Path, devmem: Devmem) -> None:
    shown = devmem(
        "search", filled, "notes", "--all-users", "When is the deadline?", "--by-conversation"
    ).stdout.splitlines()
    assert sum(line.startswith("[") for line in shown) == 2
    assert any(line.startswith("[s1") for line in shown)
    groups = json.loads(search_all(devmem, filled, "deadline", "--by-conversation", "--json", "-k", "1").stdout)
    assert len(groups) == 1
    assert groups[0].keys() == {"conversation", "session", "agent", "user", "score", "parts", "hits"}
    assert groups[0]["hits"][0]["id"] in {"d1", "d2"}
    assert groups[0]["hits"][0]["waiting"] is False
    assert "nothing was found" in search_all(devmem, filled, "zebra", "--by-conversation").stderr


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--user", "u1"], ["d1"]),
        (["--user", "nobody"], []),
        (["--all-users", "--where", 'metadata.room="5"'], []),
        (["--all-users", "--where", "source=data.jsonl", "--after", "2025-05-01"], ["d2"]),
    ],
)
def test_a_search_can_be_restricted(filled: Path, devmem: Devmem, options: list[str], found: list[str]) -> None:
    assert ids(devmem("search", filled, "notes", "deadline", "--json", *options).stdout) == found


def test_without_a_user_only_what_belongs_to_nobody_is_searched(filled: Path, devmem: Devmem) -> None:
    question = "发布会 deadline"
    result = devmem("search", filled, "notes", question, "--json")
    assert ids(result.stdout) == ["d3"]
    assert result.stderr == "left out: 2 items that belong to a user; --user ID or --all-users includes them\n"
    everything = search_all(devmem, filled, question, "--json")
    assert sorted(ids(everything.stdout)) == ["d1", "d2", "d3"]
    assert everything.stderr == ""
    assert ids(devmem("search", filled, "notes", question, "--user", "u2", "--json").stdout) == ["d2"]
    assert "--user is empty" in one_paragraph(devmem("search", filled, "notes", question, "--user", "", code=2))


def test_the_newest_items_are_shown(filled: Path, devmem: Devmem) -> None:
    head, *rows = devmem("list", filled, "notes", "--limit", "2").stdout.splitlines()
    assert head.split() == ["date", "(UTC)", "id", "source", "text"]
    assert [row.split()[2] for row in rows] == ["d3", "d2"]
    assert ids(devmem("list", filled, "notes", "--user", "u1", "--json").stdout) == ["d1"]


def test_whole_items_are_shown_by_id(filled: Path, devmem: Devmem) -> None:
    shown = json.loads(devmem("get", filled, "notes", "d1").stdout)
    assert (shown["user"], shown["session"]) == ("u1", "s1")
    assert shown["metadata"] == {"speaker": "Mara", "mood": "good", "room": 5}
    missing = devmem("get", filled, "notes", "d1", "d9", code=2)
    assert "has no item 'd9'" in one_paragraph(missing)
    assert json.loads(missing.stdout)["id"] == "d1"


@pytest.mark.parametrize("command", [["search", "deadline"], ["list"]])
def test_an_empty_store_is_said_and_not_made(workflow: Path, devmem: Devmem, command: list[str]) -> None:
    name, *query = command
    result = devmem(name, workflow, "notes", *query, "--json")
    assert result.stdout == "[]\n"
    assert "notes.db does not exist yet" in result.stderr
    assert not (workflow.parent / "notes.db").exists()
    assert "for one process only" in devmem(name, workflow, "passing", *query).stderr


def test_nothing_found_is_said(filled: Path, devmem: Devmem) -> None:
    assert "nothing was found" in search_all(devmem, filled, "zebra").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["search", "note", "x"],
            "there is no store 'note' in this workflow. Did you mean 'notes'? It has: notes,",
        ),
        (["list", "zzz"], "there is no store 'zzz' in this workflow. It has: notes, board, passing."),
        (["search", "notes", "x", "--where", "colour=red"], "a key of the metadata is metadata.colour."),
        (["search", "notes", "x", "--after", "soon"], "--after: not a time: 'soon'"),
        (["list", "notes", "--session", "a/b"], "--session: a session's name is one plain word"),
    ],
)
def test_wrong_names_are_one_paragraph(workflow: Path, devmem: Devmem, arguments: list[str], said: str) -> None:
    command, *rest = arguments
    assert said in one_paragraph(devmem(command, workflow, *rest, code=2))


def test_a_stored_escape_sequence_is_made_visible(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    """Stored text cannot steer the terminal of whoever looks at it."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"text": "\x1b]0;owned\x07 [bold]not markup[/bold] \x9b2J"}) + "\n", encoding="utf-8")
    devmem("import", workflow, "notes", data)
    for command in (["list"], ["search", "markup"], ["search", "markup", "--explain"]):
        shown = devmem(command[0], workflow, "notes", *command[1:]).stdout
        assert "\\x1b]0;owned\\x07 [bold]not markup[/bold] \\x9b2J" in shown


def test_types_of_store_are_listed(devmem: Devmem) -> None:
    shown = devmem("stores").stdout.splitlines()
    assert shown[0].split() == ["type", "provided", "by", "summary"]
    assert any(line.startswith("simple ") and "devmem" in line for line in shown)
    rows = json.loads(devmem("stores", "--json").stdout)["types"]
    assert all(row["error"] is None for row in rows)


def test_stores_of_a_workflow_are_listed(filled: Path, devmem: Devmem) -> None:
    rows: list[dict[str, Any]] = json.loads(devmem("stores", filled, "--json").stdout)["stores"]
    notes, board, passing = rows
    assert (notes["items"], notes["waiting"], notes["embedding"]) == (3, 0, None)
    assert notes["size_bytes"] > 0
    assert (board["items"], board["location"]) == (0, str(filled.parent / ".devmem/default/memory_board.db"))
    assert passing["location"] == "this process"
    assert not (filled.parent / ".devmem").exists()
    shown = devmem("stores", filled).stdout
    assert "notes.db" in shown
    assert "kB" in shown


def test_a_store_that_cannot_be_opened_is_a_row(filled: Path, devmem: Devmem) -> None:
    (filled.parent / "notes.db").write_bytes(b"not a database" * 100)
    result = devmem("stores", filled, code=1)
    assert "cannot be used: " in result.stdout
    assert "board" in result.stdout


def test_an_open_time_is_told_by_its_one_end(filled: Path, devmem: Devmem) -> None:
    asked = ("search", filled, "notes", "--all-users", "--explain")
    assert "the query names times before 2023-05-01" in " ".join(devmem(*asked, "before May 2023").stdout.split())
    assert "the query names 2023-06-01 00:00 UTC and later" in " ".join(devmem(*asked, "after May 2023").stdout.split())


@pytest.mark.parametrize("command", [("search", "tea"), ("list",), ("export",)])
def test_reading_a_file_gives_its_store_no_model(devmem: Devmem, tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "words.db"
    declaration = {"type": "simple", "config": {"memory_path": str(file)}}
    with open_memory(declaration) as memory:
        memory.add("Ann drinks green tea.")
    assert "green tea" in devmem(command[0], file, *command[1:]).stdout
    devmem("copy", file, tmp_path / "copy.db")
    for kept in (file, tmp_path / "copy.db"):
        assert inspect_location(str(kept)) == StoreMetadata(store_type="simple", model=None)


@pytest.mark.parametrize(
    "command",
    [["list"], ["count"], ["stores"], ["history", "{item}"], ["log", "--format", "mermaid"], ["runs"]],
    ids=lambda words: words[0],
)
def test_looking_into_a_store_of_files_does_not_index_them(tmp_path: Path, devmem: Devmem, command: list[str]) -> None:
    """Only a search, an index or a run brings them up to date; looking never writes."""
    workflow, docs = tmp_path / "team.yaml", tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("The launch is on June 2nd.")
    workflow.write_text("memory: [{name: docs, type: file, config: {file_sources: [{path: docs}], index_path: a.db}}]")
    devmem("reindex", workflow, "docs")
    (item,) = ids(devmem("list", workflow, "docs", "--json").stdout)
    (docs / "a.md").write_text("The launch is on June 9th.")
    (docs / "b.md").write_text("The venue is booked.")
    before = {file: file.read_bytes() for file in tmp_path.glob("a.db*")}
    name, *words = command
    assert devmem(name, workflow, "docs", *(word.format(item=item) for word in words)).stderr == ""
    assert {file: file.read_bytes() for file in tmp_path.glob("a.db*")} == before
    assert "June 9th" in devmem("search", workflow, "docs", "launch").stdout
