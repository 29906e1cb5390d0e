"""Conditions on the command line: `--where`, `--any-where`, `--order` and `--offset`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import devmem as library
from tests.cases import cases

from .conftest import Devmem


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    with library.open(str(path), embedding=None) as memory:
        for number in range(6):
            memory.add(
                f"note {number}",
                id=str(number),
                metadata={
                    "priority": number,
                    "room": "ab"[number % 2],
                    "tags": ["even" if number % 2 == 0 else "odd", number],
                    "due": f"2026-01-0{number + 1}",
                    **({"kind": "call", "with": ["Cem", f"Person {number}"]} if number > 3 else {}),
                    **({"author": {"name": "Ann" if number < 4 else "Bob"}} if number % 2 == 0 else {}),
                },
                time=1_700_000_000 - number,
                session=f"s{number % 3}/x",
            )
    return path


def shown(devmem: Devmem, notes: Path, *options: str) -> list[str]:
    return [item["id"] for item in json.loads(devmem("list", notes, "--json", *options).stdout)]


@pytest.mark.parametrize(("options", "wanted"), cases("cli_conditions", "show_selects"))
def test_show_selects(devmem: Devmem, notes: Path, options: list[str], wanted: list[str]) -> None:
    assert shown(devmem, notes, *options) == wanted


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--with", " "], "--with: expected a name"),
        (["--during", "soonish"], "--during: expected a time such as `March 2026`"),
    ],
)
def test_people_and_times_that_are_none(devmem: Devmem, notes: Path, options: list[str], said: str) -> None:
    result = devmem("search", notes, "note", *options, code=2)
    assert said in " ".join(result.stderr.split())


def test_other_commands_take_the_same(devmem: Devmem, notes: Path) -> None:
    """A search, an export in order of time, and a deletion."""
    hits = json.loads(devmem("search", notes, "note", "--json", "-k", "9", "--where", "metadata.priority>4").stdout)
    assert [hit["id"] for hit in hits] == ["5"]
    assert json.loads(devmem("search", notes, "note", "--json", "--min-relevance", "9").stdout) == []
    exported = json.loads(devmem("export", notes, "--order", "event", "--where", "metadata.priority<2").stdout)
    assert [item["id"] for item in exported["items"]] == ["1", "0"]
    devmem("forget", notes, "--where", "metadata.room=a", "--yes")
    assert shown(devmem, notes) == ["5", "3", "1"]


def test_items_are_counted_and_changed_by_a_condition(devmem: Devmem, notes: Path) -> None:
    assert devmem("count", notes, "--where", "metadata.priority>1").stdout.split() == ["4"]
    counted = json.loads(devmem("count", notes, "--by", "metadata.author.name", "--json").stdout)
    assert counted["values"] == [
        {"value": None, "count": 3},
        {"value": "Ann", "count": 2},
        {"value": "Bob", "count": 1},
    ]
    assert '"odd"' in devmem("count", notes, "--by", "metadata.tags").stdout
    condition = ("--where", "metadata.room=a", "--metadata", "state=done")
    assert "3 items would be changed" in devmem("update", notes, *condition, "--dry-run").stdout
    assert "changed 3 items" in devmem("update", notes, *condition).stdout
    assert shown(devmem, notes, "--where", "metadata.state=done") == ["4", "2", "0"]
    assert "nothing to change" in devmem("update", notes, "--where", "metadata.room=a", code=2).stderr
    assert "metadata.KEY" in devmem("count", notes, "--by", "room", code=2).stderr


@pytest.mark.parametrize(
    "condition",
    ["room=5", "metadata.=1", "metadata.", "metadata.room^=5", "session=", "=5", "", "{", '{"metadata.a": {"$gt": 1}}'],
)
def test_what_is_no_condition_is_refused(devmem: Devmem, notes: Path, condition: str) -> None:
    assert "--where" in devmem("list", notes, "--where", condition, code=2).stderr
