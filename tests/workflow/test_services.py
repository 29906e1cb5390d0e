"""Workflows on chat services: what is kept when they fail, and the parts of replies that a run hands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from devmem import MemoryBase, Workflow, WorkflowRunner, open_stores
from devmem.errors import ChatModelError
from devmem.models import ToolCall, Usage
from devmem.models.openai_chat import OpenAIChat
from devmem.stores import ChatReply, ChatRequest
from devmem.workflow import ChatModels
from tests.models.service import ChatService, Reply, answering, piece, streaming

from .runner_doubles import ChatsByNode, ScriptedChat, write_workflow

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


TWO = """\
memory:
  - {name: notes, type: simple}
nodes:
  - {id: writer, type: agent, config: {provider: extractive, memories: [{name: notes}]}}
  - {id: reviewer, type: agent, config: {provider: extractive}}
edges:
  - {from: writer, to: reviewer}
"""
LOOKING_UP = ToolCall(id="c1", name="look_up", arguments="{}")


class StreamedChat(ScriptedChat):
    """Hands out its answers word by word."""

    def stream(self, request: ChatRequest, on_text: Callable[[str], None]) -> ChatReply:
        reply = self.complete(request)
        for word in reply.text.split(" "):
            on_text(word)
        return reply


def test_pieces_come_with_their_node_also_of_models_that_answer_at_once(tmp_path: Path) -> None:
    workflow, heard = write_workflow(tmp_path, TWO), list[tuple[str, str]]()
    chats = ChatsByNode(writer=StreamedChat("a short text"))
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(
            workflow, stores, chat_models=chats, on_text=lambda node, text: heard.append((node, text))
        )
        result = runner.run("write")
    assert heard == [("writer", "a"), ("writer", "short"), ("writer", "text"), ("reviewer", "reviewer says so")]
    assert result.nodes[0].text == "a short text"


def test_calls_of_tools_and_usage_are_handed_on(tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path, TWO)
    chats = ChatsByNode(
        writer=ScriptedChat(
            ChatReply(text="", tool_calls=(LOOKING_UP,), usage=Usage(input_tokens=10, output_tokens=2))
        ),
        reviewer=ScriptedChat(ChatReply(text="fine", usage=Usage(input_tokens=5, output_tokens=1))),
    )
    with open_stores(workflow) as stores:
        result = WorkflowRunner(workflow, stores, chat_models=chats).run("write")
        assert [item.full_text() for item in stores["notes"].recent(5)] != []
    assert [node.tool_calls for node in result.nodes] == [(LOOKING_UP,), ()]
    assert result.usage == Usage(input_tokens=15, output_tokens=3)
    assert result.output == "fine"


def test_the_as_async_of_a_run(tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path, TWO)
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(workflow, stores, chat_models=ChatsByNode())
        result = asyncio.run(runner.arun("write", node="writer"))
    assert result.output == "writer says so"
