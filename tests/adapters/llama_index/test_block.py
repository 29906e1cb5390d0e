"""The contract of LlamaIndex's memory blocks, and the claims of our page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import Memory

import devmem
from devmem.adapters.llama_index import DevmemMemoryBlock
from devmem.text import estimate_tokens
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Recalls, Talks
from tests.adapters.pages import run_example


def run(done: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(done)


def said(text: str, role: MessageRole = MessageRole.USER) -> ChatMessage:
    return ChatMessage(role=role, content=text)


def test_what_was_put_is_recalled(memory: devmem.Memory) -> None:
    block = DevmemMemoryBlock(memory)
    run(block.aput([said("The launch is on May 5th."), said("Noted.", MessageRole.ASSISTANT)], session_id="1"))
    text = run(block.aget([said("Hello"), said("When is the launch?")]))
    assert "The launch is on May 5th." in text
    (record,) = (one for one in memory if "launch" in one.text)
    assert (record.role, record.scope.session) == ("user", "1")


def test_nothing_is_recalled_without_a_question(memory: devmem.Memory) -> None:
    block = DevmemMemoryBlock(memory)
    memory.add("Tea without milk.")
    assert run(block.aget()) == run(block.aget([])) == run(block.aget([said(" ")])) == ""
    assert run(block.aget([said("Hello.", MessageRole.ASSISTANT)])) == ""


def test_a_block_that_is_too_long_loses_its_last_memories(memory: devmem.Memory) -> None:
    block = DevmemMemoryBlock(memory)
    for at in range(5):
        memory.add(f"Tea number {at} is served in the garden.")
    whole = run(block.aget([said("tea")]))
    shorter = run(block.atruncate(whole, 20))
    assert shorter.splitlines()[0] == whole.splitlines()[0]
    assert shorter.splitlines()[-1] == whole.splitlines()[-1]
    assert "1. " in shorter
    assert estimate_tokens(shorter) <= estimate_tokens(whole) - 20
    assert run(block.atruncate(whole, 10_000)) is None


def test_a_whole_memory_hands_over_what_leaves_the_window(memory: devmem.Memory) -> None:
    """LlamaIndex's own `Memory` with the block in it."""
    talk = Memory.from_defaults(
        session_id="1",
        token_limit=120,
        chat_history_token_ratio=0.5,
        token_flush_size=20,
        memory_blocks=[DevmemMemoryBlock(memory, priority=0)],
    )

    async def chat() -> list[ChatMessage]:
        await talk.aput(said("The launch is on May 5th, in the old hall."))
        for at in range(20):
            await talk.aput(said(f"We spoke about the weather of day {at}.", MessageRole.ASSISTANT))
            await talk.aput(said(f"And what of day {at} after that?"))
        await talk.aput(said("When is the launch?"))
        return list(await talk.aget())

    shown = run(chat())
    assert memory.count(session="1") > 0
    assert any("May 5th" in str(message.content) for message in shown)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    assert re.search(r"1\. \[[^]]+\] (user: )?The launch is on May 5th\.", run_example("llama_index", tmp_path))


class TestContract(Talks, Histories, Recalls):
    keeps_results = True
    page, hands_on = "llama_index", "new messages"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        block = DevmemMemoryBlock(memory)
        for asked, answer in exchanges:
            run(block.aput([said(asked), said(answer, MessageRole.ASSISTANT)], session_id="1"))

    def talk(self, memory: devmem.Memory) -> None:
        said_by = {QUESTION: MessageRole.USER, RESULT: MessageRole.TOOL, ANSWER: MessageRole.ASSISTANT}
        run(DevmemMemoryBlock(memory).aput([said(text, role) for text, role in said_by.items()]))

    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        return str(run(DevmemMemoryBlock(memory).aget([said(text) for text in shown])))
