"""`devmem history` and `--as-of`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import devmem as library

from .conftest import Devmem


@pytest.fixture
def notes(tmp_path: Path) -> tuple[Path, str]:
    """A memory whose item changed, and a time before that."""
    path = tmp_path / "notes.db"
    with library.open(path, embedding=None) as memory:
        memory.add("The launch is on May 5th.", id="launch")
        then = f"{time.time():.6f}"
        memory.update("launch", "The launch is on June 2nd.")
        memory.add("Another note.", id="other")
        memory.store.delete(ids=["other"])
    return path, then


def test_history_shows_every_version(notes: tuple[Path, str], devmem: Devmem) -> None:
    told = devmem("history", notes[0], "launch").stdout.splitlines()
    assert [line.rpartition("  ")[2] for line in told[1:]] == [
        "The launch is on May 5th.",
        "The launch is on June 2nd.",
    ]
    versions = json.loads(devmem("history", notes[0], "launch", "--json").stdout)
    assert [version["began"]["operation"] for version in versions] == ["add", "update"]
    assert versions[0]["ended"]["at"] == versions[1]["began"]["at"]
    assert "forget" in devmem("history", notes[0], "other").stdout
    assert "no version of an item 'nobody'" in devmem("history", notes[0], "nobody", code=2).stderr


def test_an_earlier_state_is_searched_shown_and_exported(notes: tuple[Path, str], devmem: Devmem) -> None:
    path, then = notes
    for command in (["search", path, "launch"], ["list", path], ["export", path]):
        now, earlier = devmem(*command).stdout, devmem(*command, "--as-of", then).stdout
        assert "June 2nd" in now
        assert "May 5th" not in now
        assert "May 5th" in earlier
        assert "June 2nd" not in earlier
    assert "--as-of" in devmem("list", path, "--as-of", "whenever", code=2).stderr


def test_what_is_forgotten_leaves_no_version(notes: tuple[Path, str], devmem: Devmem) -> None:
    devmem("forget", notes[0], "--id", "launch", "--yes")
    assert "no version" in devmem("history", notes[0], "launch", code=2).stderr


@pytest.fixture
def pending(tmp_path: Path) -> Path:
    """A memory in which a run is pending that changed one item and added another."""
    path = tmp_path / "notes.db"
    with library.open(path, embedding=None) as memory:
        memory.add("The launch is on May 5th.", id="launch")
        run = memory.run("r", actor="planner")
        run.memory.update("launch", "The launch is on June 2nd.")
        run.memory.add("Ann brings the cake.", id="cake")
        run.close()
    return path


def test_a_pending_run_is_listed_compared_and_committed(pending: Path, devmem: Devmem) -> None:
    (run,) = json.loads(devmem("runs", pending, "--json").stdout)
    assert (run["run"], run["state"], run["actor"], run["changes"]) == ("r", "pending", "planner", 2)
    found = json.loads(devmem("history", pending, "--run", "r", "--json").stdout)
    assert [(each["id"], each["operation"]) for each in found] == [("cake", "add"), ("launch", "update")]
    assert "June 2nd" not in devmem("list", pending).stdout
    assert "committed" in devmem("runs", pending, "--commit", "r").stdout
    assert "June 2nd" in devmem("list", pending).stdout
    assert "June 2nd" in devmem("history", pending, "--from", "2020-01-01").stdout
    assert "2 items changed back" in devmem("runs", pending, "--revert", "r").stdout
    assert "May 5th" in devmem("list", pending).stdout
    assert "is reverted" in devmem("runs", pending, "--revert", "r", code=2).stderr


def test_a_pending_run_is_discarded(pending: Path, devmem: Devmem) -> None:
    assert "discarded" in devmem("runs", pending, "--discard", "r").stdout
    assert "cake" not in devmem("list", pending).stdout
    devmem("runs", pending, "--discard", "r", "--commit", "r", code=2)
    devmem("history", pending, code=2)
    assert "no run of this id" in devmem("runs", pending, "--commit", "nobody", code=2).stderr


TEAM = """
memory:
  - {name: plans, type: simple, config: {memory_path: plans.db}}
  - {name: notes, type: simple, config: {memory_path: notes.db}}
nodes:
  - id: planner
    type: agent
    config:
      provider: extractive
      memories: [{name: plans, retrieve_stage: [gen]}, {name: notes, retrieve_stage: [gen]}]
"""


def test_a_run_of_a_workflow_is_listed_and_reverted_in_all_of_its_stores(tmp_path: Path, devmem: Devmem) -> None:
    """It was no transaction; without the name of a store all of them are meant."""
    team = tmp_path / "team.yaml"
    team.write_text(TEAM)
    devmem("run", team, "--input", "The archive moves on June 2nd.")
    (plans, notes) = json.loads(devmem("runs", team, "--json").stdout)
    assert {plans["store"], notes["store"]} == {"plans", "notes"}
    assert plans["run"] == notes["run"]
    assert (plans["state"], plans["changes"]) == ("committed", 1)
    told = devmem("runs", team, "--revert", plans["run"]).stdout
    assert "plans: 1 item changed back" in told
    assert "notes: 1 item changed back" in told
    assert "June" not in devmem("list", team, "plans").stdout + devmem("list", team, "notes").stdout
    assert "is reverted" in devmem("runs", team, "--revert", plans["run"], code=2).stderr
    assert {run["state"] for run in json.loads(devmem("runs", team, "--json").stdout)} == {"reverted", "committed"}
    assert "store" in devmem("runs", team).stdout


def test_a_pending_run_of_a_workflow_ends_in_all_of_its_stores(tmp_path: Path, devmem: Devmem) -> None:
    team = tmp_path / "team.yaml"
    team.write_text(TEAM)
    for run in ("r", "s"):
        for name in ("plans", "notes"):
            with library.open(f"{team}#{name}") as memory:
                pending = memory.run(run)
                pending.memory.add(f"In run {run}.")
                pending.close()
    assert "committed" in devmem("runs", team, "--commit", "r").stdout
    assert "discarded" in devmem("runs", team, "--discard", "s").stdout
    assert [run["state"] for run in json.loads(devmem("runs", team, "--json").stdout)].count("committed") == 2
    assert "In run r." in devmem("list", team, "notes").stdout
    assert "no pending run" in devmem("runs", team, "--commit", "nobody", code=2).stderr


def test_a_run_that_goes_wrong_says_so_and_is_discarded(tmp_path: Path, devmem: Devmem) -> None:
    """The error was a warning when the workflow was read; with another model the run can be made again."""
    team = tmp_path / "team.yaml"
    failing = "  - {id: reviewer, type: agent, config: {provider: openai, name: m, api_key: '${NO_SUCH_KEY}'}}\n"
    edges = "edges: [{from: planner, to: reviewer}]\n"
    team.write_text("transaction: true\n" + TEAM.lstrip() + failing + edges)
    told = devmem("run", team, "--input", "The archive moves on June 2nd.", code=2).stderr
    assert "error: " in told
    assert "NO_SUCH_KEY is not set" in told
    assert "nothing that it wrote to plans, notes is kept" in told
    assert {run["state"] for run in json.loads(devmem("runs", team, "--json").stdout)} == {"discarded"}
    devmem("run", team, "--input", "The archive moves on June 2nd.", "--chat", "extractive")
    assert "June 2nd" in devmem("list", team, "plans").stdout


def test_what_was_never_written_is_not_created_by_reading(tmp_path: Path, devmem: Devmem) -> None:
    missing, team = tmp_path / "nope.db", tmp_path / "team.yaml"
    team.write_text(TEAM.replace("plans.db", "auto").replace("notes.db", "auto"))
    before = sorted(tmp_path.rglob("*"))
    for command in (
        ["runs", missing],
        ["runs", missing, "--revert", "r"],
        ["history", missing, "id"],
        ["history", missing, "--run", "r"],
        ["log", missing, "c"],
        ["log", missing, "--trace", "t"],
        ["copy", missing, tmp_path / "copy.db"],
        ["runs", team, "--session", "tpyo"],
        ["runs", team, "--revert", "r", "--session", "tpyo"],
    ):
        assert "does not exist yet" in devmem(*command, code=2).stderr
    assert "does not exist yet" in devmem("context", missing).stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_ends_and_is_reverted_where_another_store_was_never_written(tmp_path: Path, devmem: Devmem) -> None:
    team = tmp_path / "team.yaml"
    team.write_text(TEAM)
    with library.open(f"{team}#plans") as memory:
        pending = memory.run("r")
        pending.memory.add("The archive moves.")
        pending.close()
    assert "committed" in devmem("runs", team, "--commit", "r").stdout
    assert "plans: 1 item changed back" in devmem("runs", team, "--revert", "r").stdout
    assert not (tmp_path / "notes.db").exists()


def test_stale_items_are_listed_and_renewed(devmem: Devmem, tmp_path: Path) -> None:
    file = tmp_path / "plans.db"
    (fact,) = json.loads(devmem("add", file, "The launch is on May 5th.", "--key", "launch", "--json").stdout)["ids"]
    devmem("add", file, "So the venue is booked until May 5th.", "--derived-from", fact[:8], "--id", "venue")
    assert json.loads(devmem("list", file, "--stale", "--json").stdout) == []
    devmem("add", file, "The launch is on June 2nd.", "--key", "launch")
    (stale,) = json.loads(devmem("list", file, "--stale", "--json").stdout)
    assert (stale["item"]["id"], stale["reason"], stale["parent"]) == ("venue", "based on something that changed", fact)
    assert "based on something that changed" in devmem("list", file, "--stale").stdout
    assert "venue" not in devmem("list", file, "--stale", "--user", "ann").stdout
    (hit, *_) = json.loads(devmem("search", file, "venue", "--json").stdout)
    assert hit["stale"] == "based on something that changed"
    assert "plans.db: 1 renewed" in devmem("consolidate", file, "--renew").stdout
    assert json.loads(devmem("list", file, "--stale", "--json").stdout) == []
    assert "June 2nd" in devmem("get", file, "venue").stdout
