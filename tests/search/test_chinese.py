"""Chinese memories are found by their full text alone: 50 of several people, 30 questions in other words.

Some are in traditional characters, some asked for in the other script, some by dates and digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryBase, load_workflow, open_stores
from devmem.stores import MemoryQuery
from tools.bench.retrieval.items import read_items

DATA = Path(__file__).parent / "data" / "chinese.units.json"
WORKFLOW = "memory: [{name: notes, type: simple, config: {memory_path: notes.db}}]\n"


def queries() -> list[dict[str, Any]]:
    (group,) = json.loads(DATA.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = group["queries"]
    return found


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[MemoryBase]:
    file = tmp_path / "workflow.yaml"
    file.write_text(WORKFLOW, encoding="utf-8")
    with open_stores(load_workflow(file)) as stores:
        stores["notes"].add(read_items(DATA).items)
        yield stores["notes"]


def found_within(notes: MemoryBase, asked: dict[str, Any], k: int) -> bool:
    hits = notes.search(MemoryQuery(text=asked["text"], limit=k))
    return bool({hit.item.id for hit in hits} & {f"zh/{unit}" for unit in asked["gold"]})


def test_most_questions_find_their_memory_by_words_alone(notes: MemoryBase) -> None:
    missed = [asked["text"] for asked in queries() if not found_within(notes, asked, 5)]
    assert len(missed) <= 0.15 * 30, missed


def test_both_scripts_and_digits_are_found(notes: MemoryBase) -> None:
    found = {
        kind: [found_within(notes, one, 5) for one in queries() if one["type"] == kind]
        for kind in ("繁体", "日期与数字")
    }
    assert all(sum(each) >= 0.75 * len(each) for each in found.values()), found


def test_a_question_for_a_day_favours_a_line_with_a_date() -> None:
    """Also one whose numbers are not digits."""
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add(["发布会改到六月二日。", "发布会在老磨坊。"])
        assert [hit.text for hit in memory.search("发布会是哪天？")] == ["发布会改到六月二日。", "发布会在老磨坊。"]
