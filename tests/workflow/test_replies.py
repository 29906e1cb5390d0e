"""Parts of its models' replies that a run hands on: pieces of text, calls of tools, the tokens that they cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from devmem import WorkflowRunner, open_stores
from devmem.models import ToolCall, Usage
from devmem.stores import ChatReply, ChatRequest

from .runner_doubles import ChatsByNode, ScriptedChat, write_workflow

TWO = """\
memory:
  - {name: notes, type: simple}
nodes:
  - {id: writer, type: agent, config: {provider: extractive, memories: [{name: notes}]}}
  - {id: reviewer, type: agent, config: {provider: extractive}}
edges:
  - {from: writer, to: reviewer}
"""
CALL = ToolCall(id="c1", name="look_up", arguments="{}")


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
        writer=ScriptedChat(ChatReply(text="", tool_calls=(CALL,), usage=Usage(input_tokens=10, output_tokens=2))),
        reviewer=ScriptedChat(ChatReply(text="fine", usage=Usage(input_tokens=5, output_tokens=1))),
    )
    with open_stores(workflow) as stores:
        result = WorkflowRunner(workflow, stores, chat_models=chats).run("write")
        assert [item.full_text() for item in stores["notes"].recent(5)] != []
    assert [node.tool_calls for node in result.nodes] == [(CALL,), ()]
    assert result.usage == Usage(input_tokens=15, output_tokens=3)
    assert result.output == "fine"


def test_the_as_async_of_a_run(tmp_path: Path) -> None:
    workflow = write_workflow(tmp_path, TWO)
    with open_stores(workflow) as stores:
        runner = WorkflowRunner(workflow, stores, chat_models=ChatsByNode())
        result = asyncio.run(runner.arun("write", node="writer"))
    assert result.output == "writer says so"
