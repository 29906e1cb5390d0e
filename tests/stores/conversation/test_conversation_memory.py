"""The global memory: recorded once, in order, seen by each agent through its own view."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import (
    MemoryContentSnapshot,
    MemoryWritePayload,
    record_agent,
    record_llm,
    record_tool,
)
from devmem.recording import InteractionRecorder
from devmem.views.diagrams import call_tree, timeline_lines, tree_lines
from devmem_stores.conversation import ConversationMemory
from tests.conftest import MakeStore


@pytest.fixture
def store(make_store: MakeStore) -> ConversationMemory:
    return make_store(ConversationMemory, memory_path="global.db")


@record_tool("calculator", input_field="x")
def double(x: int) -> int:
    return 2 * x


@record_llm("model", input_field="prompt")
def ask_model(prompt: str) -> str:
    return prompt.upper()


@record_agent("reviewer", input_field="text")
def review(text: str) -> str:
    return f"fine: {ask_model(text)}"


@record_agent("writer", input_field="task")
def write(task: str) -> str:
    return review(f"{task} {double(21)}")


def record(store: ConversationMemory, folder: Path, task: str = "sum", trace: str = "t1") -> None:
    with (
        InteractionRecorder(store, folder / "journal") as recorder,
        recorder.trace(conversation="c", trace=trace, user="ann"),
    ):
        write(task)


def test_a_trace_is_recorded_once_and_comes_back_as_a_tree(store: ConversationMemory, tmp_path: Path) -> None:
    record(store, tmp_path)
    records = store.trace("t1")
    assert store.count() == len(records) == 8
    store.record(records)
    assert store.count() == 8, "recorded again, nothing is added"
    (root,) = call_tree(records)
    assert [node.call.target.name for node in root.calls] == ["calculator", "reviewer"]
    assert [node.call.target.name for node in root.calls[1].calls] == ["model"]
    assert root.answer is not None
    assert root.answer.content == "fine: SUM 42"
    lines = [line.split(" (")[0] if "->" in line else line for line in tree_lines([root])]
    assert lines == [
        "ann -> agent writer",
        "  writer -> tool calculator",
        "    = 42",
        "  writer -> agent reviewer",
        "    reviewer -> llm model",
        "      = SUM 42",
        "    = fine: SUM 42",
        "  = fine: SUM 42",
    ]
    assert [line.split("  ")[1] for line in timeline_lines(records)][:2] == ["ann -> writer", "writer -> calculator"]


def test_an_agent_that_writes_within_its_recorded_call_stores_nothing_twice(
    store: ConversationMemory, tmp_path: Path
) -> None:
    """The call in progress names the record; what another agent writes there is a record of its own."""
    with (
        InteractionRecorder(store, tmp_path / "journal") as recorder,
        recorder.trace(conversation="c", trace="t", user="ann"),
        record_agent("writer", "Write.") as call,
    ):
        for source in ("writer", "guest"):
            answer = MemoryContentSnapshot(text=f"{source} writes")
            store.update(MemoryWritePayload(inputs_text="Write.", output_snapshot=answer, source=source))
        call.output("writer writes")
    said = [(one.source.name, one.kind.value, one.content) for one in store.log("c")]
    assert sorted(said) == [
        ("ann", "input", "Write."),
        ("guest", "output", "guest writes"),
        ("writer", "output", "writer writes"),
    ]
