"""`devmem add`, `edit` and `forget`, on a plain path and on a workflow's store, and by the beginning of an id."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from devmem.cli.commands import forgetting as workflow_forgetting
from tests.cases import cases

from .conftest import Devmem, one_paragraph


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where a memory may be made; there is none yet."""
    return tmp_path / "notes.db"


def shown(devmem: Devmem, *place: object) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(devmem("list", *place, "-n", "1000", "--json").stdout)
    return list(reversed(items))


def texts(devmem: Devmem, *place: object) -> list[str]:
    return [item["text"] for item in shown(devmem, *place)]


def test_a_text_is_remembered_and_found_by_a_path_alone(notes: Path, devmem: Devmem) -> None:
    told = devmem("add", notes, "Ann moved the launch to June 2nd.").stdout
    (item,) = shown(devmem, notes)
    assert told == f"{notes}: stored {item['id']}; 1 item now\n"
    assert "Ann moved the launch to June 2nd." in devmem("search", notes, "When is the launch?").stdout


def test_only_the_version_that_was_read_is_replaced(notes: Path, devmem: Devmem) -> None:
    devmem("add", notes, "The launch is in June.", "--key", "launch", "--if-version", "none")
    (first,) = shown(devmem, notes)
    assert "stored already" in devmem("add", notes, "x", "--key", "launch", "--if-version", "none", code=2).stderr
    devmem("update", notes, first["id"], "The launch is in May.")
    versions = json.loads(devmem("history", notes, first["id"], "--json").stdout)
    assert [one["replaced"] for one in versions] == [None, versions[0]["item"]["version"]]
    read = ("--if-version", first["version"])
    assert "was changed" in devmem("update", notes, first["id"], "x", *read, code=2).stderr
    assert "with conditions" in devmem("update", notes, "--where", "metadata.key", "--trust", "1", *read, code=2).stderr


def test_one_store_has_three_names(workflow: Path, devmem: Devmem) -> None:
    devmem("add", workflow, "notes", "Call Bob.")
    devmem("add", f"{workflow}#notes", "发布会改到五月三日。")
    devmem("add", workflow.parent / "notes.db", "李娜对花生过敏。")
    for place in ([workflow, "notes"], [f"{workflow}#notes"], [workflow.parent / "notes.db"]):
        assert texts(devmem, *place) == ["Call Bob.", "发布会改到五月三日。", "李娜对花生过敏。"]
        assert "Call Bob." in devmem("search", *place, "Bob").stdout


def test_an_item_carries_what_is_said_of_it(notes: Path, devmem: Devmem) -> None:
    options = ("--user", "ann", "--agent", "a", "--conversation", "c", "--metadata", "room=5", "--metadata", 'n="5"')
    devmem("add", notes, "Tea at five.", "--id", "tea", "--time", "2025-05-01", "--expires", "2100-01-01", *options)
    (item,) = shown(devmem, notes)
    assert item["id"] == "tea"
    assert (item["agent"], item["conversation"], item["user"]) == ("a", "c", "ann")
    assert item["metadata"] == {"n": "5", "room": 5}
    assert (item["time"], item["expires_at"]) == ("2025-05-01T00:00:00Z", "2100-01-01T00:00:00Z")


@pytest.mark.parametrize(("options", "stored"), [([], ["one\n\ntwo"]), (["--lines"], ["one", "two"])])
def test_standard_input_is_one_item_or_an_item_a_line(
    notes: Path, devmem: Devmem, options: list[str], stored: list[str]
) -> None:
    done = json.loads(devmem("add", notes, "-", *options, "--json", stdin="one\n\ntwo\n").stdout)
    assert texts(devmem, notes) == stored
    assert done == {"store": str(notes), "ids": [item["id"] for item in shown(devmem, notes)], "items": len(stored)}


def test_of_a_conversation_so_far_what_is_new_is_stored(notes: Path, devmem: Devmem) -> None:
    exchange = [{"role": "user", "content": "status?"}, {"role": "assistant", "content": "Done."}]
    for turn, new in ((1, 2), (2, 2), (2, 0), (3, 2)):
        arguments = ("add", notes, "-", "--history", "--conversation", "c")
        told = devmem(*arguments, stdin=json.dumps(exchange * turn)).stdout
        assert f"{new} items stored; {2 * turn} items now" in told
    assert texts(devmem, notes) == ["status?", "Done."] * 3
    for word, reason in (("status?", "not JSON"), ('{"role": "user"}', "JSON list of messages")):
        assert reason in devmem("add", notes, word, "--history", code=2).stderr


def test_an_item_is_kept_for_a_while(notes: Path, devmem: Devmem) -> None:
    """The duration counts from now on, and `none` ends it; two ways to say when are one too many."""
    devmem("add", notes, "The door code is 4711.", "--id", "d1", "--ttl", "1h 30m")
    (item,) = shown(devmem, notes)
    stored = datetime.fromisoformat(item["stored_at"])
    assert (datetime.fromisoformat(item["expires_at"]) - stored).total_seconds() == pytest.approx(5_400, abs=1)
    devmem("update", notes, "d1", "--ttl", "P1D")
    assert (datetime.fromisoformat(shown(devmem, notes)[0]["expires_at"]) - stored).total_seconds() > 80_000
    devmem("update", notes, "d1", "--expires-at", "None")
    assert "expires_at" not in shown(devmem, notes)[0]
    both = devmem("add", notes, "x", "--ttl", "1h", "--expires-at", "2100-01-01", code=2)
    assert "give either --expires-at or --ttl" in both.stderr
    assert (
        "--ttl 'soon': expected a duration such as 30d" in devmem("update", notes, "d1", "--ttl", "soon", code=2).stderr
    )


def test_an_edit_keeps_the_id_and_what_is_not_named(notes: Path, devmem: Devmem) -> None:
    devmem("add", notes, "Launch on May 5th.", "--id", "d1", "--metadata", "room=5", "--expires", "2100-01-01")
    assert devmem("update", notes, "d1", "Launch on June 2nd.").stdout == f"{notes}: changed d1\n"
    (item,) = shown(devmem, notes)
    assert (item["id"], item["text"]) == ("d1", "Launch on June 2nd.")
    assert (item["metadata"], item["expires_at"]) == ({"room": 5}, "2100-01-01T00:00:00Z")
    assert "nothing was found" in devmem("search", notes, "May 5th", "--threshold", "0.99").stderr
    devmem("update", notes, "d1", "--metadata", "mood=good", "--remove", "room", "--expires", "none")
    (item,) = shown(devmem, notes)
    assert item["metadata"] == {"mood": "good"}
    assert "expires_at" not in item
    devmem("update", notes, "d1", "-", stdin="Launch on June 3rd.\n")
    assert texts(devmem, notes) == ["Launch on June 3rd."]


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--id", "d1"], ["d2", "d3"]),
        (["--id", "d1", "--id", "d3"], ["d2"]),
        (["--user", "u1"], ["d2", "d3"]),
        (["--where", "session=s1", "--all-users"], ["d2", "d3"]),
        (["--where", "session=s1"], ["d1", "d2", "d3"]),
        (["--where", "metadata.room=5", "--user", "u1"], ["d2", "d3"]),
        (["--before", "2025-06-01", "--all-users"], ["d3"]),
        (["--after", "2025-06-01"], ["d1", "d2"]),
        (["--all-users"], []),
    ],
)
def test_items_are_forgotten_by_id_scope_and_filter(
    filled: Path, devmem: Devmem, options: list[str], left: list[str]
) -> None:
    trial = json.loads(devmem("forget", filled, "notes", *options, "--dry-run", "--json").stdout)
    assert [item["id"] for item in shown(devmem, filled, "notes")] == ["d1", "d2", "d3"]
    assert trial.items() >= {"dry_run": True, "store": "notes", "items": 3 - len(left), "total": 3}.items()
    done = json.loads(devmem("forget", filled, "notes", *options, "--yes", "--json").stdout)
    assert done.items() >= {"dry_run": False, "store": "notes", "items": 3 - len(left), "total": len(left)}.items()
    assert [item["id"] for item in shown(devmem, filled, "notes")] == left


def test_what_belongs_to_users_is_left_out_and_counted(filled: Path, devmem: Devmem) -> None:
    result = devmem("forget", filled, "notes", "--before", "2026-01-01", "--dry-run")
    assert "d3" in result.stdout
    assert "d1" not in result.stdout
    assert "left out: 2 items that belong to a user; --user ID or --all-users includes them" in result.stderr


@pytest.mark.parametrize(("answer", "left"), [("y\n", 2), ("n\n", 3), ("\n", 3)])
def test_a_person_is_asked(
    filled: Path, devmem: Devmem, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    monkeypatch.setattr(workflow_forgetting, "can_ask", lambda: True)
    result = devmem("forget", filled, "notes", "--id", "d1", stdin=answer, code=0 if left == 2 else 1)
    assert "user u1  Mara: The deadline is on 12 June." in result.stdout
    assert "Forget 1 item of notes?" in result.stderr
    assert len(shown(devmem, filled, "notes")) == left


@pytest.mark.parametrize(("arguments", "said"), cases("cli_changing", "nothing_is_done_when_it_is_not_clear_what"))
def test_nothing_is_done_when_it_is_not_clear_what(
    filled: Path, devmem: Devmem, arguments: list[str], said: str
) -> None:
    command, *rest = arguments
    place = filled.parent / "notes.db"
    assert said in one_paragraph(devmem(command, place, *rest, code=2, stdin="one\ntwo\n"))
    assert len(shown(devmem, place)) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "x"], "name a store of this workflow; it has notes, board, passing."),
        (["add", "note", "x"], "there is no store 'note' in this workflow. Did you mean 'notes'?"),
        (["add", "notes"], "missing arguments: expected MEMORY [STORE] TEXT"),
        (["add", "passing", "x"], "for one process only, so an item would be lost"),
        (["update", "notes", "d1", "x"], "notes.db does not exist yet; there is nothing to change"),
        (["forget", "notes", "--all-users"], "notes.db does not exist yet; there is nothing to change"),
        (["list"], "name a store of this workflow"),
    ],
)
def test_a_memory_that_is_not_clear_is_one_paragraph(
    workflow: Path, devmem: Devmem, arguments: list[str], said: str
) -> None:
    command, *rest = arguments
    assert said in one_paragraph(devmem(command, workflow, *rest, code=2))
    assert not (workflow.parent / "notes.db").exists()


def test_a_session_that_is_mistyped(tmp_path: Path, devmem: Devmem) -> None:
    """A new one is made by whatever writes; else the sessions that are there are named."""
    path = tmp_path / "one.yaml"
    path.write_text("memory: [{name: notes, type: simple, config: {memory_path: auto}}]\n", encoding="utf-8")
    assert "sessions" not in devmem("search", path, "Bob", "--session", "bo").stderr
    devmem("add", path, "Call Bob.", "--session", "bob")
    devmem("add", path, "Call Ann.", "--session", "ann")
    for command in (
        ["update", path, "1", "x"],
        ["forget", path, "notes", "--id", "1"],
        ["export", path],
        ["history", path, "1"],
    ):
        refused = one_paragraph(devmem(*command, "--session", "bo", code=2))
        assert "memory_notes.db does not exist yet (sessions with files: ann, bob)" in refused
    assert "(sessions with files: ann, bob)" in devmem("search", path, "Bob").stderr
    assert sorted(each.name for each in (tmp_path / ".devmem").iterdir()) == ["ann", "bob"]


def test_of_many_sessions_the_likely_ones_are_named(tmp_path: Path, devmem: Devmem) -> None:
    path = tmp_path / "one.yaml"
    path.write_text("memory: [{name: notes, type: simple, config: {memory_path: auto}}]\n", encoding="utf-8")
    for number in range(30):
        (tmp_path / ".devmem" / f"run-{number:02}").mkdir(parents=True)
    (tmp_path / ".devmem" / "sprint-9").mkdir()
    said = " ".join(devmem("search", path, "Bob", "--session", "sprint9").stderr.split())
    assert "(sessions with files: run-00, run-01, run-02, run-03, sprint-9 and 26 more)" in said


def test_a_store_that_takes_nothing_says_why(tmp_path: Path, devmem: Devmem) -> None:
    path = tmp_path / "one.yaml"
    (tmp_path / "doc.md").write_text("# Title\n", encoding="utf-8")
    config = "{index_path: m.db, file_sources: [{path: doc.md}]}"
    path.write_text(f"memory: [{{name: docs, type: file, config: {config}}}]\n", encoding="utf-8")
    indexed, refused = devmem("add", path, "Call Bob.", code=2).stderr.splitlines()
    assert indexed.startswith("docs: 1 new, 0 unchanged; 1 files in 1 chunks")
    assert refused.startswith("error: 1 of the items not stored: read-only")


def test_a_receipt_names_the_files_that_were_reached(filled: Path, devmem: Devmem) -> None:
    receipt = json.loads(
        devmem("forget", filled, "notes", "--matching", "DEADLINE", "--all-users", "--yes", "--json").stdout
    )
    assert receipt["items"] >= 1
    assert str(filled.parent / "notes.db") in receipt["reached"]
    assert receipt["residues"] == []
    listed = devmem("forget", filled, "notes", "--all-users", "--vacuum", "--yes").stdout
    assert "reached: " in listed
    assert "--source is empty" in one_paragraph(devmem("forget", filled, "notes", "--source", "", code=2))


@pytest.fixture
def three(devmem: Devmem, tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    devmem("add", path, "The venue is booked.", "--id", "5f2c0001aaaa")
    devmem("add", path, "The band is not.", "--id", "5f2c0002bbbb")
    devmem("add", path, "Ann is called 5f2c.", "--id", "77aa")
    return path


def texts_by_id(devmem: Devmem, path: Path) -> dict[str, str]:
    return {item["id"]: item["text"] for item in json.loads(devmem("list", path, "--json").stdout)}


def test_an_item_is_edited_shown_and_forgotten_by_it(three: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("update", three, "5f2c0001", "The venue is the mill.")
    assert texts_by_id(devmem, three)["5f2c0001aaaa"] == "The venue is the mill."
    assert "the mill" in devmem("get", three, "5f2c0001").stdout
    assert len(json.loads(devmem("history", three, "5f2c0001", "--json").stdout)) == 2
    devmem("export", three, "--id", "5f2c0001", "--output", tmp_path / "out.json")
    assert "the mill" in (tmp_path / "out.json").read_text()
    devmem("forget", three, "--id", "5f2c0001", "--yes")
    assert texts_by_id(devmem, three).keys() == {"5f2c0002bbbb", "77aa"}


def test_an_ambiguous_one_lists_the_candidates(three: Path, devmem: Devmem) -> None:
    told = one_paragraph(devmem("update", three, "5f2c", "x", code=2))
    assert "'5f2c' is the beginning of 2 item ids: 5f2c0001aaaa (The venue is booked.), 5f2c0002bbbb (" in told
    told = one_paragraph(devmem("forget", three, "--id", "5f2c0", "--yes", code=2))
    assert "Give more of the id." in told


@pytest.mark.parametrize("given", ["5f2", "5f2d", "ffff"])
def test_a_beginning_that_is_too_short_or_of_nothing_is_no_id(three: Path, devmem: Devmem, given: str) -> None:
    assert given in one_paragraph(devmem("update", three, given, "x", code=2))


def test_a_whole_id_wins_over_those_that_begin_with_it(three: Path, devmem: Devmem) -> None:
    devmem("add", three, "Another one.", "--id", "77aa11")
    devmem("update", three, "77aa", "Ann is called Ann.")
    assert texts_by_id(devmem, three)["77aa"] == "Ann is called Ann."


def test_an_item_of_a_workflow_is_forgotten_by_it(workflow: Path, devmem: Devmem) -> None:
    devmem("add", workflow, "notes", "The venue is booked.", "--id", "5f2c0001aaaa")
    told = devmem("forget", workflow, "--id", "5f2c0001", "--yes").stdout
    assert "1 item" in told
    assert not json.loads(devmem("list", workflow, "notes", "--json").stdout)


def test_a_run_is_reverted_by_it(workflow: Path, devmem: Devmem) -> None:
    devmem("run", workflow, "--input", "Ann moved the launch to June 2nd.", "--node", "scribe")
    (run,) = json.loads(devmem("runs", workflow, "notes", "--json").stdout)
    assert json.loads(devmem("history", workflow, "notes", "--run", run["run"][:8], "--json").stdout)
    devmem("runs", workflow, "notes", "--revert", run["run"][:8])
    assert not json.loads(devmem("list", workflow, "notes", "--json").stdout)


def test_a_run_that_undoes_another_is_listed_by_the_beginning_of_its_id(workflow: Path, devmem: Devmem) -> None:
    devmem("run", workflow, "--input", "Ann moved the launch to June 2nd.", "--node", "scribe")
    (run,) = (each["run"] for each in json.loads(devmem("runs", workflow, "notes", "--json").stdout))
    devmem("runs", workflow, "notes", "--revert", run)
    undoing = f"revert of {run[:8]}"
    _, shown, whole = devmem("runs", workflow, "notes").stdout.splitlines()
    assert shown.split()[:4] == [*undoing.split(), "committed"]
    assert whole.startswith(f"{run}  reverted")
    assert f"revert of {run}" in devmem("runs", workflow, "notes", "--json").stdout
    devmem("runs", workflow, "notes", "--revert", undoing)
    (item,) = json.loads(devmem("list", workflow, "notes", "--json").stdout)
    assert f"revert of {undoing} " in devmem("history", workflow, "notes", item["id"]).stdout
