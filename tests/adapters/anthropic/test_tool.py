"""Claude's memory tool within the SDK's own loop, with a scripted model in the place of the service."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.lib.tools import ToolError
from anthropic.types.beta import BetaMemoryTool20250818CreateCommand

import devmem
from devmem.adapters.anthropic import AsyncDevmemMemoryTool, DevmemMemoryTool
from devmem.adapters.files import FolderLimits
from tests.adapters.contract import actors
from tests.adapters.pages import run_example

NOTES = "/memories/notes.md"
CREATE = {"command": "create", "path": NOTES, "file_text": "tea\nno milk"}
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Remember."}]}


class Claude:
    """Answers each request with the next tool call, and ends the conversation after the last."""

    def __init__(self, *calls: dict[str, Any]) -> None:
        self.calls = list(calls)
        self.requests: list[dict[str, Any]] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(json.loads(request.content))
        number = len(self.requests) - 1
        more = number < len(self.calls)
        use = {"type": "tool_use", "id": f"t{number}", "name": "memory"}
        content = {**use, "input": self.calls[number]} if more else {"type": "text", "text": "Done."}
        body = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use" if more else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [content],
        }
        return httpx2.Response(200, json=body)

    async def aanswer(self, request: httpx2.Request) -> httpx2.Response:
        return self.answer(request)

    @property
    def told(self) -> list[tuple[str, bool]]:
        """Texts that the model was answered with, and whether each was an error."""
        results = [request["messages"][-1]["content"][0] for request in self.requests[1:]]
        return [(result["content"], result.get("is_error", False)) for result in results]


def converse(memory: devmem.Memory, *calls: dict[str, Any], is_async: bool = False) -> Claude:
    claude = Claude(*calls)

    async def asking() -> None:
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(claude.aanswer)) as http:
            client = anthropic.AsyncAnthropic(api_key="k", http_client=http)
            await client.beta.messages.tool_runner(**REQUEST, tools=[AsyncDevmemMemoryTool(memory)]).until_done()

    if is_async:
        asyncio.run(asking())
    else:
        with httpx2.Client(transport=httpx2.MockTransport(claude.answer)) as http:
            client = anthropic.Anthropic(api_key="k", http_client=http)
            client.beta.messages.tool_runner(**REQUEST, tools=[DevmemMemoryTool(memory)]).until_done()
    return claude


@pytest.mark.parametrize("is_async", [False, True])
def test_every_command_of_claude_is_carried_out(memory: devmem.Memory, is_async: bool) -> None:
    claude = converse(
        memory,
        CREATE,
        {"command": "view", "path": NOTES, "view_range": [2, 2]},
        {"command": "str_replace", "path": NOTES, "old_str": "no", "new_str": "oat"},
        {"command": "insert", "path": NOTES, "insert_line": 0, "insert_text": "# Drinks"},
        {"command": "rename", "old_path": NOTES, "new_path": "/memories/drinks.md"},
        {"command": "view", "path": "/memories"},
        {"command": "delete", "path": "/memories/drinks.md"},
        is_async=is_async,
    )
    assert claude.requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    texts = [text for text, is_error in claude.told if not is_error]
    assert len(texts) == 7
    assert texts[1].splitlines()[1:] == ["     2\tno milk"]
    assert texts[5].splitlines()[1:] == ["22B\t/memories", "22B\t/memories/drinks.md"]
    assert len(memory) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_what_claude_gets_wrong_it_is_told(memory: devmem.Memory, is_async: bool) -> None:
    claude = converse(
        memory,
        CREATE,
        CREATE,
        {"command": "view", "path": "/memories/../etc/passwd"},
        {"command": "create", "path": "/memories/b.md"},
        {"command": "insert", "path": NOTES, "insert_line": "top", "insert_text": "x"},
        is_async=is_async,
    )
    texts, errors = zip(*claude.told, strict=True)
    assert errors == (False, True, True, True, True)
    assert texts[1].startswith(f"File {NOTES} already exists")
    assert texts[2] == "Path /memories/../etc/passwd would escape /memories directory"
    assert texts[3].startswith("Invalid arguments of `create`: file_text:")
    assert texts[4].startswith("Invalid arguments of `insert`: insert_line:")


def test_a_memory_that_fails_is_reported_and_ends_no_conversation(
    memory: devmem.Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.close()
    claude = converse(memory, CREATE)
    assert claude.told[0][1]
    assert "The memory cannot do this now" in claude.told[0][0]
    assert "memory command 'create' failed" in caplog.text


def test_limits_and_cache_control(memory: devmem.Memory) -> None:
    tool = DevmemMemoryTool(memory, limits=FolderLimits(max_chars=5), cache_control={"type": "ephemeral"})
    assert tool.to_dict()["cache_control"] == {"type": "ephemeral"}
    with pytest.raises(ToolError, match="would have 6 characters, and 5 is the maximum"):
        tool.create(BetaMemoryTool20250818CreateCommand(command="create", path=NOTES, file_text="123456"))


@pytest.mark.parametrize("is_async", [False, True])
def test_clearing_deletes_the_files_and_nothing_else(memory: devmem.Memory, is_async: bool) -> None:
    memory.add("The launch is on June 2nd.")
    converse(memory, CREATE)
    assert actors(memory) == {None, "anthropic"}
    if is_async:
        asyncio.run(AsyncDevmemMemoryTool(memory).clear_all_memory())
    else:
        DevmemMemoryTool(memory).clear_all_memory()
    assert [record.text for record in memory] == ["The launch is on June 2nd."]


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    assert run_example("anthropic", tmp_path).splitlines() == ["[]", "Ann takes her tea without milk."]
