"""The beginning of an id stands for it where it is unique, as in git."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Devmem, one_paragraph


@pytest.fixture
def notes(devmem: Devmem, tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    devmem("add", path, "The venue is booked.", "--id", "5f2c0001aaaa")
    devmem("add", path, "The band is not.", "--id", "5f2c0002bbbb")
    devmem("add", path, "Ann is called 5f2c.", "--id", "77aa")
    return path


def texts(devmem: Devmem, path: Path) -> dict[str, str]:
    return {item["id"]: item["text"] for item in json.loads(devmem("list", path, "--json").stdout)}


def test_an_item_is_edited_shown_and_forgotten_by_it(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    devmem("update", notes, "5f2c0001", "The venue is the mill.")
    assert texts(devmem, notes)["5f2c0001aaaa"] == "The venue is the mill."
    assert "the mill" in devmem("get", notes, "5f2c0001").stdout
    assert len(json.loads(devmem("history", notes, "5f2c0001", "--json").stdout)) == 2
    devmem("export", notes, "--id", "5f2c0001", "--output", tmp_path / "out.json")
    assert "the mill" in (tmp_path / "out.json").read_text()
    devmem("forget", notes, "--id", "5f2c0001", "--yes")
    assert texts(devmem, notes).keys() == {"5f2c0002bbbb", "77aa"}


def test_an_ambiguous_one_lists_the_candidates(notes: Path, devmem: Devmem) -> None:
    told = one_paragraph(devmem("update", notes, "5f2c", "x", code=2))
    assert "'5f2c' is the beginning of 2 item ids: 5f2c0001aaaa (The venue is booked.), 5f2c0002bbbb (" in told
    told = one_paragraph(devmem("forget", notes, "--id", "5f2c0", "--yes", code=2))
    assert "Give more of the id." in told


@pytest.mark.parametrize("given", ["5f2", "5f2d", "ffff"])
def test_a_beginning_that_is_too_short_or_of_nothing_is_no_id(notes: Path, devmem: Devmem, given: str) -> None:
    assert given in one_paragraph(devmem("update", notes, given, "x", code=2))


def test_a_whole_id_wins_over_those_that_begin_with_it(notes: Path, devmem: Devmem) -> None:
    devmem("add", notes, "Another one.", "--id", "77aa11")
    devmem("update", notes, "77aa", "Ann is called Ann.")
    assert texts(devmem, notes)["77aa"] == "Ann is called Ann."


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
