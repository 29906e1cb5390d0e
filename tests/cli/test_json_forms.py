"""The JSON of commands has the keys that `docs/cli.md` lists."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from devmem import Hit, MemoryItem
from devmem.server.requests import RankedMemory, StoredMemory, ranked

from .conftest import Devmem

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
