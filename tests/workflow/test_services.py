"""Workflows on a chat service that fails in every way: the memory keeps what was written, and the next run goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from devmem import MemoryBase, Workflow, WorkflowRunner, open_stores
from devmem.errors import ChatModelError
from devmem.models import ToolCall, Usage
from devmem.models.openai_chat import OpenAIChat
from devmem.workflow import ChatModels
from tests.models.service import ChatService, Reply, answering, piece, streaming

from .runner_doubles import write_workflow

TEAM = """\
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
nodes:
  - {id: writer, type: agent, config: {provider: openai, name: m, memories: [{name: notes}]}}
  - {id: reviewer, type: agent, config: {provider: openai, name: m, memories: [{name: notes}]}}
edges:
  - {from: writer, to: reviewer}
"""
BUSY = Reply(body={"error": {"message": "busy"}}, status=429, headers={"retry-after": "0.01"})
DOWN = Reply(body={"error": {"message": "down"}}, status=500)
CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
USED = {"prompt_tokens": 10, "completion_tokens": 2}


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    return write_workflow(tmp_path, TEAM)


def chats(service: ChatService) -> ChatModels:
    return lambda node, config: OpenAIChat(
        "m", api_key=SecretStr("key-1234"), base_url=service.address, timeout=0.5, max_retries=1
    )


CUT = replace(streaming(piece(content="half"), done=False), is_cut=True)
HALTED = replace(streaming(piece(content="half"), done=False), drips=b": thinking\n\n")


def kept(store: MemoryBase) -> list[str]:
    return [item.output_snapshot.text for item in store.recent(9) if item.output_snapshot is not None]


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param([DOWN, DOWN], id="down"),
        pytest.param([BUSY, BUSY], id="busy"),
        pytest.param([replace(answering("half"), is_cut=True)] * 2, id="cut"),
        pytest.param([Reply(body={"choices": []})], id="no choice"),
        pytest.param([Reply(body=b"{no json")], id="no JSON"),
    ],
)
def test_a_run_that_fails_keeps_what_earlier_nodes_wrote_and_the_next_one_goes_on(
    service: ChatService, workflow: Workflow, failing: list[Reply]
) -> None:
    service.script = [answering("a draft"), *failing, answering("second draft"), answering("fine")]
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, chat_models=chats(service)) as runner:
        with pytest.raises(ChatModelError, match=r"chat model 'm'"):
            asyncio.run(runner.arun("write"))
        assert kept(stores["notes"]) == ["a draft"]
        assert asyncio.run(runner.arun("again")).output == "fine"
    with open_stores(workflow) as stores:
        assert sorted(kept(stores["notes"])) == ["a draft", "fine", "second draft"]


@pytest.mark.parametrize("broken", [CUT, HALTED], ids=["cut", "halted"])
def test_half_an_answer_is_heard_but_not_remembered(service: ChatService, workflow: Workflow, broken: Reply) -> None:
    service.script = [streaming(piece("stop", content="a draft")), broken]
    heard: list[tuple[str, str]] = []
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(
            workflow, stores, chat_models=chats(service), on_text=lambda node, text: heard.append((node, text))
        )
        with pytest.raises(ChatModelError, match=r"broke off|came to a halt"):
            asyncio.run(runner.arun("write"))
        assert kept(stores["notes"]) == ["a draft"]
    assert heard == [("writer", "a draft"), ("reviewer", "half")]


def test_retries_calls_of_tools_and_usage_reach_whoever_runs(service: ChatService, workflow: Workflow) -> None:
    calling = {"choices": [{"message": {"content": None, "tool_calls": [CALL]}}], "usage": USED}
    plain = {"choices": [{"message": {"content": "fine"}}]}
    service.script = [BUSY, Reply(body=calling), DOWN, Reply(body=plain)]
    with open_stores(workflow) as stores:
        result = asyncio.run(WorkflowRunner(workflow, stores, chat_models=chats(service)).arun("write"))
    assert [node.tool_calls for node in result.nodes] == [(ToolCall(id="c1", name="look_up", arguments="{}"),), ()]
    assert (result.output, result.usage) == ("fine", Usage(input_tokens=10, output_tokens=2))
