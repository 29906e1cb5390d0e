"""Stages by our names and by DevAll's, and the labels of an exchange in a Chinese block."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import (
    Hit,
    MemoryContentSnapshot,
    MemoryItem,
    MemoryManager,
    MemoryWritePayload,
    Stage,
    load_workflow,
    open_stores,
)
from devmem.model.caller import RETRIEVING
from devmem.model.interactions import Language
from devmem.search.merging import MergePolicy, merge


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("pre", Stage.PRE),
        ("plan", Stage.PLAN),
        ("pre_gen_thinking", Stage.PLAN),
        ("gen", Stage.GEN),
        ("critique", Stage.CRITIQUE),
        ("post_gen_thinking", Stage.CRITIQUE),
        ("finished", Stage.FINISHED),
    ],
)
def test_names(name: str, stage: Stage) -> None:
    assert Stage(name) is stage


def test_the_last_stage_does_not_retrieve() -> None:
    assert set(Stage) - set(RETRIEVING) == {Stage.FINISHED}


WORKFLOW = """
memory_options: {language: zh}
memory: [{name: notes, type: simple, config: {memory_path: notes.db}}]
nodes:
  - {id: writer, type: agent, config: {memories: [{name: notes, read: true, write: true}]}}
"""
ASKED = "发布是哪天?\nOutput: 不知道"


def said(text: str) -> MemoryContentSnapshot:
    return MemoryContentSnapshot(text=text)


def shown(item: MemoryItem, language: Language) -> list[str]:
    """Lines of the item in the block."""
    block = merge([[Hit(item=item, score=1.0, store="notes")]], MergePolicy(language=language)).formatted_text
    return block.split("\n\n")[1].splitlines()[1:]


def test_a_workflow_in_chinese_shows_chinese_labels(tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(WORKFLOW, encoding="utf-8")
    workflow = load_workflow(file)
    with open_stores(workflow) as stores:
        writer = workflow.node("writer").config
        assert writer is not None
        memory = MemoryManager(writer.memories, stores, options=workflow.memory_options)
        memory.update(MemoryWritePayload(inputs_text=ASKED, output_snapshot=said("发布定在五月五日。")))
        recalled = memory.retrieve(query="发布")
        assert recalled is not None
        assert " 输入: 发布是哪天?\n     Output: 不知道\n   输出: 发布定在五月五日。" in recalled.formatted_text
        (hit,) = recalled.hits
        assert hit.item.content_summary.startswith("Input: 发布是哪天?")
        assert hit.item.content_summary.endswith("\nOutput: 发布定在五月五日。")


def test_what_only_looks_like_a_label_is_no_label() -> None:
    """Somebody noted it like that: the item has no sides."""
    note = MemoryItem(id="1", content_summary="Input: voltage\nOutput: current", created_at=1e15)
    quoted = ['1. "Input: voltage"', '   "Output: current"']
    assert shown(note, "zh") == shown(note, "en") == quoted
