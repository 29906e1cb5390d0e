"""The JSON of commands: every command has it, with the keys that `docs/cli.md` lists, as it lists every command."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devmem import Hit, MemoryItem
from devmem.server.requests import RankedMemory, StoredMemory, ranked

from .conftest import COMMANDS, Devmem, options_of

WITHOUT = {"init", "export", "mcp", "web"}
"""These print a document of another form, ask, or go on."""


def test_every_other_command_has_the_option() -> None:
    assert {name for name in COMMANDS if "--json" not in options_of(name)} <= WITHOUT


@pytest.fixture
def notes(devmem: Devmem, tmp_path: Path) -> Path:
    path = tmp_path / "notes.db"
    devmem("add", path, "The venue is booked.", "--user", "ann")
    return path


def printed(devmem: Devmem, *arguments: object) -> Any:
    return json.loads(devmem(*arguments, "--json").stdout)


def test_a_backup_and_its_restoring(devmem: Devmem, notes: Path, tmp_path: Path) -> None:
    copy, back = tmp_path / "copy.db", tmp_path / "back.db"
    assert printed(devmem, "backup", notes, copy) == {"file": str(copy), "items": 1}
    assert printed(devmem, "backup", back, copy, "--restore") == {"file": str(back), "items": 1, "kept_out": 0}


def test_an_import_and_its_dry_run(devmem: Devmem, notes: Path, tmp_path: Path) -> None:
    data = tmp_path / "more.jsonl"
    data.write_text('{"text": "The band is not booked."}\n')
    dry = printed(devmem, "import", notes, data, "--dry-run")
    sample = "The band is not booked."
    assert dry == {"files": [{"file": str(data), "format": "jsonl", "records": 1, "samples": [sample]}]}
    done = printed(devmem, "import", notes, data)
    assert done["items"] == 2
    assert done["files"] == [{"file": str(data), "format": "jsonl", "counts": {"stored": 1}}]


def test_an_indexing(devmem: Devmem, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Launch\n\nIt is on June 2nd.\n")
    team = tmp_path / "team.yaml"
    team.write_text("memory: [{name: docs, type: file, config: {index_path: i.db, file_sources: [{path: docs}]}}]\n")
    (report,) = printed(devmem, "reindex", team)
    assert (report["store"], report["new"], report["files"], report["problems"]) == ("docs", ["docs/a.md"], 1, {})
    (plan,) = printed(devmem, "reindex", team, "--dry-run")
    assert (plan["new"], plan["unchanged"]) == ([], 1)


def test_every_user_may_be_asked_for_where_every_user_is_shown(devmem: Devmem, notes: Path) -> None:
    assert printed(devmem, "list", notes, "--all-users") == printed(devmem, "list", notes)


PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
SECTION = re.findall(r"^\| ([^|]+) \| (`.*)\|$", PAGE[PAGE.index("## Output") : PAGE.index("## Running")], re.M)
LISTED = {form: set(re.findall(r"`(\w+)`", keys)) for form, keys in SECTION}
HIT = Hit(item=MemoryItem(content_summary="Ann"), score=0.7, similarity=0.5, lexical=1.2, store="notes")
WORDS_ONLY = Hit(item=MemoryItem(content_summary="Bob"), score=0.2, lexical=0.2, store="notes")


def test_items_and_hits_have_the_listed_keys() -> None:
    assert StoredMemory.model_fields.keys() - {"score"} == LISTED["item"]
    assert RankedMemory.model_fields.keys() - StoredMemory.model_fields.keys() | {"score"} == LISTED["hit"]


@pytest.mark.parametrize(
    ("form", "options"), [("search with `--explain`", ["--explain"]), ("conversation", ["--by-conversation"])]
)
def test_a_search_has_the_listed_keys(filled: Path, devmem: Devmem, form: str, options: list[str]) -> None:
    found = json.loads(devmem("search", filled, "notes", "deadline", "--all-users", "--json", *options).stdout)
    assert (found if isinstance(found, dict) else found[0]).keys() == LISTED[form]


def test_a_run_has_the_listed_keys(filled: Path, devmem: Devmem) -> None:
    run = json.loads(devmem("run", filled, "--input", "When is the deadline?", "--all-users", "--json").stdout)
    assert run.keys() == LISTED["run"]
    (node, *_) = run["nodes"]
    assert node.keys() == LISTED["node of a run"]
    assert node["writes"][0].keys() == LISTED["write"]
    assert node["usage"].keys() == LISTED["usage"]


@pytest.mark.parametrize(
    ("others", "waiting"),
    [
        ([HIT], True),
        ([], False),
        ([replace(HIT, store="board")], False),
        ([replace(HIT, similarity=None, lexical=None, recency=1.0)], False),
    ],
)
def test_a_hit_without_a_similarity_waits_where_others_of_its_store_have_one(others: list[Hit], waiting: bool) -> None:
    """Neither a store without a model, nor the latest items unasked, tell of an embedding that is pending."""
    assert ranked([*others, WORDS_ONLY])[-1].waiting is waiting


def test_a_memory_leaves_out_what_does_not_apply(filled: Path, devmem: Devmem) -> None:
    (hit,) = json.loads(devmem("search", filled, "notes", "发布会", "--json").stdout)
    assert hit.keys().isdisjoint({"user", "similarity", "passage", "expires_at", "embedding"})


_BEFORE_A_COMMAND = {"--help", "--debug", "--verbose", "--key-file"}


def test_every_command_is_listed() -> None:
    head, _, _ = PAGE.partition("\n## ")
    listed = "".join(re.findall(r"^\* \*\*.*$", head, re.MULTILINE))
    assert sorted(re.findall(r"`([\w-]+)`", listed)) == sorted(COMMANDS)


def test_every_option_exists() -> None:
    known = set().union(_BEFORE_A_COMMAND, *map(options_of, COMMANDS))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - known == set()
