"""`devmem shards`: sizes, moves, and shards that join."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import devmem as library

from .conftest import Devmem

TEAM = "memory: [{{name: notes, type: simple, config: {{memory_path: {{shards: {shards}, by: user}}}}}}]"


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A workflow with a store on two files."""
    path = tmp_path / "team.yaml"
    path.write_text(TEAM.format(shards="[one.db, two.db]"))
    with library.open(f"{path}#notes") as memory:
        for user in ("ann", "bob", "王芳", "dan", "eve", "fay"):
            memory.add(f"{user} takes the train", user=user)
        memory.add("The office is closed on Friday.")
    return path


def test_sizes_and_tenants_are_shown(team: Path, devmem: Devmem) -> None:
    told = devmem("shards", team, "notes", "--tenants").stdout
    assert "one.db" in told
    assert "王芳" in told
    assert "(none)" in told
    found = json.loads(devmem("shards", "show", f"{team}#notes", "--json").stdout)
    assert sum(each["items"] for each in found["shards"]) == 7
    assert (found["by"], found["move"]) == ("user", None)


def test_a_tenant_is_moved(team: Path, devmem: Devmem) -> None:
    for target in ("one", "two", "one"):
        devmem("shards", "move", team, "notes", "王芳", "--to", target)
        found = json.loads(devmem("shards", f"{team}#notes", "--tenants", "--json").stdout)
        assert {each["shard"] for each in found["tenants"] if each["tenant"] == "王芳"} == {target}
    told = devmem("shards", "move", f"{team}#notes", "--unscoped", "--to", "two").stdout
    assert "the items without a tenant" in told
    assert "already in one" in devmem("shards", "move", f"{team}#notes", "王芳", "--to", "one").stdout
    assert "no move was in progress" in devmem("shards", "move", f"{team}#notes", "--cancel").stdout
    assert json.loads(devmem("count", f"{team}#notes", "--all-users", "--json").stdout)["count"] == 7


def test_what_is_wrong_is_said(team: Path, tmp_path: Path, devmem: Devmem) -> None:
    assert "the shards are one, two" in devmem("shards", "move", f"{team}#notes", "ann", "--to", "six", code=2).stderr
    assert "--to names the shard" in devmem("shards", "move", f"{team}#notes", "ann", code=2).stderr
    with library.open(tmp_path / "plain.db", embedding=None) as memory:
        memory.add("alone")
    assert "keeps its items in one place" in devmem("shards", tmp_path / "plain.db", code=2).stderr


def test_a_shard_joins(team: Path, devmem: Devmem) -> None:
    team.write_text(TEAM.format(shards="[one.db, two.db, three.db, four.db]"))
    assert "new" in devmem("shards", f"{team}#notes").stdout
    due = json.loads(devmem("shards", "rebalance", f"{team}#notes", "--dry-run", "--json").stdout)
    done = json.loads(devmem("shards", "rebalance", team, "notes", "--json").stdout)
    assert {each["tenant"] for each in done} == {each["tenant"] for each in due}
    assert {each["target"] for each in done} <= {"three", "four"}
    assert "nothing had to move" in devmem("shards", "rebalance", f"{team}#notes").stdout
    found = json.loads(devmem("shards", f"{team}#notes", "--json").stdout)
    assert sum(each["items"] for each in found["shards"]) == 7
