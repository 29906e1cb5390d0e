"""`devmem run`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Devmem, one_paragraph, unreachable_store

TOLD = "The launch moved to the third of May."


def run_json(devmem: Devmem, *arguments: object, **options: Any) -> list[dict[str, Any]]:
    result = devmem("run", *arguments, "--json", **options)
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_what_was_told_is_recalled_in_a_later_run_and_the_answer_alone_is_printed(
    workflow: Path, devmem: Devmem
) -> None:
    devmem("run", workflow, "--input", TOLD)
    result = devmem("run", workflow, "--node", "analyst", "--input", "When is the launch?")
    assert TOLD in result.stdout
    first, *quotes = result.stdout.splitlines()
    assert first.startswith("Remembered passages")
    assert all(line.startswith("- ") for line in quotes)


def test_memory_is_shown_with_its_scores(workflow: Path, devmem: Devmem) -> None:
    devmem("run", workflow, "--node", "scribe", "--input", TOLD)
    shown = devmem("run", workflow, "--input", "When is the launch?", "--show-memory").stdout
    assert shown.startswith("> When is the launch?")
    assert "[scribe]" in shown
    assert re.search(r"^1\. 0\.\d{3}  notes  \d{4}-\d\d-\d\d \d\d:\d\d  \w+\n   lexical 0\.", shown, re.M)
    assert "notes: stored " in shown


def test_nothing_recalled_is_said(workflow: Path, devmem: Devmem) -> None:
    shown = devmem("run", workflow, "--node", "analyst", "--input", "Is there anything?", "--show-memory").stdout
    assert "No relevant memories found" in shown


def test_json_has_everything_for_programs(workflow: Path, devmem: Devmem) -> None:
    (told,) = run_json(devmem, workflow, "--input", TOLD, "--user", "u1", "--node", "scribe")
    (write, board) = told["nodes"][0]["writes"]
    assert (write["store"], write["status"], write["stage"]) == ("notes", "stored", "finished")
    assert board["store"] == "board"
    (unasked,) = run_json(devmem, workflow, "--input", "When is the launch?", "--node", "scribe")
    assert (unasked["nodes"][0]["recalled"], unasked["hidden"]["notes"]) == ([], 1)
    (asked,) = run_json(devmem, workflow, "--input", "When is the launch?", "--all-users")
    assert asked["hidden"] == {}
    assert asked["input"] == "When is the launch?"
    assert asked["answer"] == asked["nodes"][-1]["answer"]
    assert [node["node"] for node in asked["nodes"]] == ["scribe", "someone", "analyst"]
    (hit,) = (each for each in asked["nodes"][0]["recalled"] if each["id"] == write["id"])
    assert hit["store"] == "notes"
    assert TOLD in hit["text"]
    assert hit["score"] > 0
    assert hit["lexical"] > 0
    assert "similarity" not in hit
    assert hit["user"] == "u1"
    assert hit["metadata"]["input_preview"] == TOLD
    assert "gen" in hit["stages"]
    assert asked["nodes"][0]["failures"] == []
    assert "someone" in asked["warnings"][0]


def test_the_output_is_that_of_the_end_node(make_workflow: Callable[[str], Path], devmem: Devmem) -> None:
    path = make_workflow(
        "nodes:\n  - {id: scribe, type: agent, config: {}}\n  - {id: bye, type: literal, config: {content: Goodbye.}}\n"
        "edges: [{from: scribe, to: bye}]\n"
    )
    assert devmem("run", path, "--input", "Hello.").stdout == "Goodbye.\n"


def test_sessions_are_apart(workflow: Path, devmem: Devmem) -> None:
    for session, told in (("one", TOLD), ("two", "The tram stops at the mill.")):
        devmem("run", workflow, "--input", told, "--session", session, "--node", "scribe")
    assert (workflow.parent / ".devmem" / "one" / "memory_board.db").exists()
    rows = json.loads(devmem("stores", workflow, "--session", "two", "--json").stdout)["stores"]
    assert next(row["items"] for row in rows if row["store"] == "board") == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("inputs.txt", "The venue is the mill.\n\n  The tram stops there.  \n{not JSON}\n"),
        ("inputs.txt", '{"text": "The venue is the mill."}\n{"question": "The tram stops there."}\n{not JSON}\n'),
        ("inputs.jsonl", '{"text": "The venue is the mill."}\n{"input": "The tram stops there."}\n"{not JSON}"\n'),
    ],
)
def test_each_line_of_a_file_is_a_run(workflow: Path, devmem: Devmem, tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    done = run_json(devmem, workflow, "--node", "analyst", "--input-file", tmp_path / name)
    assert [one["input"].strip('"') for one in done] == [
        "The venue is the mill.",
        "The tram stops there.",
        "{not JSON}",
    ]


def test_what_one_input_stores_the_next_recalls(workflow: Path, devmem: Devmem) -> None:
    told, asked = run_json(devmem, workflow, "--input-file", "-", stdin=f"{TOLD}\nWhen is the launch?\n")
    assert told["nodes"][0]["writes"][0]["status"] == "stored"
    assert TOLD in asked["answer"]


def test_a_pipe_may_hold_anything(workflow: Path, devmem: Devmem) -> None:
    content = b'\xef\xbb\xbf{"text": "\\u53d1"}\r\nbytes \xff that are not UTF-8\n'
    done = run_json(devmem, workflow, "--node", "analyst", "--input-file", "-", stdin=content)
    assert [one["input"] for one in done] == ["发", "bytes \ufffd that are not UTF-8"]


@pytest.mark.parametrize(
    ("line", "said"),
    [("{oops", "the line is not JSON"), ('{"a": 1}', "no text: expected one of"), ('{"text": ""}', "no text")],
)
def test_a_bad_line_stops_before_anything_runs(
    workflow: Path, devmem: Devmem, tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_text(f'{{"text": "{TOLD}"}}\n{line}\n', encoding="utf-8")
    result = devmem("run", workflow, "--input-file", path, code=2)
    assert f"{path}:2: {said}" in one_paragraph(result)
    assert not result.stdout


def test_a_warning_is_said_once(workflow: Path, devmem: Devmem) -> None:
    result = devmem("run", workflow, "--input-file", "-", stdin="one\ntwo\nthree\n")
    assert result.stderr.count("node 'someone' is of type 'human'") == 1


def test_a_provider_can_be_put_in_the_place_of_all(make_workflow: Callable[[str], Path], devmem: Devmem) -> None:
    """Any workflow runs without its key."""
    path = make_workflow(
        "nodes:\n  - id: a\n    type: agent\n    config: {provider: openai, model: m, api_key: '${NOT_SET}'}\n"
    )
    assert "No relevant memories" in devmem("run", path, "--input", "Hello there?", "--chat", "extractive").stdout
    assert "the variable NOT_SET is not set" in devmem("run", path, "--input", "Hello there?", code=2).stderr
    said = devmem("run", path, "--input", "x", "--chat", "strange", code=2).stderr
    assert "NOT_SET" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--node", "analist", "--input", "x"], "no node 'analist' in this workflow. Did you mean 'analyst'?"),
        (["--session", "../x", "--input", "x"], "--session: a session's name is one plain word, not '../x'"),
        (["--input", "x", "--input-file", "y"], "give either --input or --input-file"),
        (["--input-file", "missing.txt"], "missing.txt: the file cannot be read: No such file"),
        ([], "nothing to run: give --input TEXT"),
    ],
)
def test_wrong_options_are_one_paragraph(workflow: Path, devmem: Devmem, arguments: list[str], said: str) -> None:
    assert said in one_paragraph(devmem("run", workflow, *arguments, code=2))


def test_a_store_that_cannot_take_its_part_is_reported(
    make_workflow: Callable[[str], Path], devmem: Devmem, closed_port: int
) -> None:
    """The answer is given all the same, and the exit code tells."""
    node = "nodes:\n  - {id: a, type: agent, config: {memories: [{name: notes}]}}\n"
    path = make_workflow(unreachable_store(closed_port) + node)
    result = devmem("run", path, "--input", TOLD, "--show-memory", code=1)
    assert "error: embedding model " in result.stderr
    assert "no connection" in result.stderr
    assert "embedding pending" in result.stdout
    assert "Traceback" not in result.output


def test_one_input_can_come_from_a_pipe(workflow: Path, devmem: Devmem) -> None:
    (done,) = run_json(devmem, workflow, "--input", "-", "--node", "analyst", stdin="First line.\nSecond line.\n")
    assert done["input"] == "First line.\nSecond line."


def test_a_file_goes_with_the_input_and_is_stored_with_it(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "plan.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    devmem("run", workflow, "--node", "scribe", "--input", TOLD, "--attach", tmp_path / "plan.png")
    (stored,) = json.loads(devmem("list", workflow, "notes", "--json").stdout)
    assert "plan.png" in json.dumps(stored)
    missing = devmem("run", workflow, "--input", TOLD, "--attach", tmp_path / "none.png", code=2)
    assert "none.png: cannot be attached" in one_paragraph(missing)


@pytest.mark.parametrize("said", ["李娜对花生过敏。", "Call Bob."])
def test_a_short_text_is_stored_and_that_is_said(workflow: Path, devmem: Devmem, said: str) -> None:
    """A fresh store keeps short texts and questions; one line says what was stored."""
    result = devmem("run", workflow, "--node", "scribe", "--input", said)
    assert result.stderr == "memory: 1 stored in notes; 1 stored in board\n"
    again = devmem("run", workflow, "--node", "scribe", "--input", "Who is Bob?")
    assert again.stderr == "memory: 1 stored in notes; 1 stored in board\n"
    reader = devmem("run", workflow, "--node", "analyst", "--input", "Who is Bob?")
    assert reader.stderr == "memory: nothing was written\n"


def test_each_run_says_what_it_stored_and_many_say_it_once(workflow: Path, devmem: Devmem) -> None:
    few = devmem("run", workflow, "--node", "scribe", "--input-file", "-", stdin="One here.\nTwo here.\n").stderr
    assert few == "memory: 1 stored in notes; 1 stored in board\n" * 2
    lines = workflow.parent / "inputs.txt"
    lines.write_text("".join(f"Line number {n}.\n" for n in range(10)), encoding="utf-8")
    many = devmem("run", workflow, "--node", "scribe", "--input-file", lines).stderr
    assert many.count("memory: ") == 1
    assert "10 stored in notes" in many


def test_a_user_that_is_not_set_is_refused(filled: Path, devmem: Devmem) -> None:
    for user in ("", " "):
        refused = devmem("run", filled, "--input", "When is the deadline?", "--user", user, code=2)
        assert "--user is empty. Is a variable not set?" in one_paragraph(refused)
    both = devmem("run", filled, "--input", "x", "--user", "u1", "--all-users", code=2)
    assert "either --user or --all-users" in one_paragraph(both)


def test_without_a_user_nobody_else_s_items_are_recalled(filled: Path, devmem: Devmem) -> None:
    question = ("--node", "analyst", "--input", "When is the deadline?")
    result = devmem("run", filled, *question)
    assert "12 June" not in result.stdout
    assert "left out: 2 items of notes that belong to a user; --user ID or --all-users includes them" in result.stderr
    assert "12 June" in devmem("run", filled, *question, "--user", "u1").stdout
    everybody = devmem("run", filled, *question, "--all-users")
    assert "12 June" in everybody.stdout
    assert "left out" not in everybody.stderr


@pytest.mark.parametrize("embedding", ["minilm", "none"])
def test_a_workflow_runs_without_the_keys_of_its_models(
    make_workflow: Callable[[str], Path], devmem: Devmem, monkeypatch: pytest.MonkeyPatch, embedding: str
) -> None:
    for name in ("API_KEY", "BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    path = make_workflow(
        "graph:\n  memory:\n    - name: notes\n      type: simple\n      config:\n        memory_path: notes.db\n"
        "        embedding: {provider: openai, model: m, api_key: '${API_KEY}', base_url: '${BASE_URL}'}\n"
        "  nodes:\n    - id: a\n      type: agent\n      config: {provider: openai, name: gpt, api_key: '${API_KEY}',"
        " base_url: '${BASE_URL}', memories: [{name: notes}]}\n"
    )
    without = ("--chat", "extractive", "--embedding", embedding)
    devmem("run", path, "--input", TOLD, *without)
    assert TOLD in devmem("run", path, "--input", "When is the launch?", *without).stdout


def test_the_indexing_of_files_is_shown(tmp_path: Path, make_workflow: Callable[[str], Path], devmem: Devmem) -> None:
    """The first run with a store of files may take minutes: it says what it does, once."""
    (tmp_path / "plan.md").write_text("# Plan\n\nThe launch is on 3 May.\n", encoding="utf-8")
    path = make_workflow(
        "memory: [{name: docs, type: file, config: {index_path: docs.db, file_sources: [{path: plan.md}]}}]\n"
        "nodes: [{id: a, type: agent, config: {memories: [{name: docs, write: false}]}}]\n"
    )
    first = devmem("run", path, "--input", "When is the launch?")
    assert "3 May" in first.stdout
    assert first.stderr.startswith("docs: 1 new, 0 unchanged; 1 files in 1 chunks, 0 embedded now, ")
    assert "docs: " not in devmem("search", path, "When is the launch?").stderr


def test_answers_are_printed_while_they_come(workflow: Path, devmem: Devmem) -> None:
    printed = devmem("run", workflow, "--input", "The launch is on 3 May.", "--chat", "extractive", "--stream").stdout
    lines = printed.splitlines()
    assert [line for line in lines if line.startswith("[")] == ["[scribe]", "[analyst]"]
    assert lines[-1]
    refused = devmem("run", workflow, "--input", "x", "--chat", "extractive", "--stream", "--json", code=2)
    assert "cannot be combined with --json or --show-memory" in " ".join(refused.stderr.split())
