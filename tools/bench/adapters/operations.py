"""How each adapter puts a text into a memory, and how it searches; the frameworks are imported where they are used."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import devmem

LIMIT: Final = 5
"""Number of hits of a search."""

Operation: TypeAlias = Callable[[str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Operations:
    """An adapter's write of a text, and its search for one; None where it has no search."""

    put: Operation
    search: Operation | None


@asynccontextmanager
async def _mcp(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from mcp import Client

    from devmem.adapters.mcp import make_server

    async with Client(make_server(memory)) as client:
        yield Operations(
            lambda text: client.call_tool("remember", {"text": text}),
            lambda query: client.call_tool("recall", {"query": query, "limit": LIMIT}),
        )


@asynccontextmanager
async def _langgraph(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from devmem.adapters.langgraph import DevmemStore

    store = DevmemStore(memory)
    numbers = iter(range(1 << 30))

    async def put(text: str) -> None:
        store.put(("notes",), str(next(numbers)), {"text": text})

    async def search(query: str) -> object:
        return store.search(("notes",), query=query, limit=LIMIT)

    yield Operations(put, search)


@asynccontextmanager
async def _openai_agents(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from devmem.adapters.openai_agents import DevmemSession

    session = DevmemSession("bench", memory)
    yield Operations(lambda text: session.add_items([{"role": "user", "content": text}]), None)


@asynccontextmanager
async def _anthropic(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from devmem.adapters.anthropic import AsyncDevmemMemoryTool
    from devmem.adapters.files import FolderLimits

    tool = AsyncDevmemMemoryTool(memory, limits=FolderLimits(max_files=1_000_000))
    numbers = iter(range(1 << 30))

    async def put(text: str) -> object:
        return await tool.call({"command": "create", "path": f"/memories/{next(numbers)}.md", "file_text": text})

    yield Operations(put, None)


@asynccontextmanager
async def _google_adk(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from google.adk.events.event import Event
    from google.genai import types

    from devmem.adapters.google_adk import DevmemMemoryService

    service = DevmemMemoryService(memory, limit=LIMIT)
    ann: Mapping[str, Any] = {"app_name": "bench", "user_id": "ann"}

    def put(text: str) -> Awaitable[object]:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        return service.add_events_to_memory(**ann, events=[Event(author="user", content=content)])

    yield Operations(put, lambda query: service.search_memory(**ann, query=query))


@asynccontextmanager
async def _llama_index(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from llama_index.core.base.llms.types import ChatMessage

    from devmem.adapters.llama_index import DevmemMemoryBlock

    block = DevmemMemoryBlock(memory, limit=LIMIT)
    yield Operations(
        lambda text: block.aput([ChatMessage(role="user", content=text)]),
        lambda query: block.aget([ChatMessage(role="user", content=query)]),
    )


@asynccontextmanager
async def _strands(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from devmem.adapters.strands import DevmemMemoryStore

    store = DevmemMemoryStore(memory, max_search_results=LIMIT)
    yield Operations(store.add, store.search)


@asynccontextmanager
async def _agent_framework(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from agent_framework import AgentSession, Message, SessionContext

    from devmem.adapters.agent_framework import DevmemContextProvider

    provider = DevmemContextProvider(memory, limit=LIMIT)
    session = AgentSession(session_id="bench")

    def asked(text: str) -> dict[str, Any]:
        context = SessionContext(session_id="bench", input_messages=[Message("user", [text])])
        return {"agent": None, "session": session, "context": context, "state": {}}

    yield Operations(lambda text: provider.after_run(**asked(text)), lambda query: provider.before_run(**asked(query)))


@asynccontextmanager
async def _pydantic_ai(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RunUsage

    from devmem.adapters.pydantic_ai import memory_toolset

    toolset = memory_toolset(memory)
    run = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    tools = await toolset.get_tools(run)

    async def called(name: str, **arguments: object) -> object:
        return await toolset.call_tool(name, arguments, run, tools[name])

    yield Operations(
        lambda text: called("remember", text=text), lambda query: called("recall", query=query, limit=LIMIT)
    )


@asynccontextmanager
async def _crewai(memory: devmem.Memory) -> AsyncIterator[Operations]:
    from crewai.memory.types import MemoryItem

    from devmem.adapters.crewai import DevmemStorage

    storage = DevmemStorage(memory)

    async def put(text: str) -> None:
        storage.save([MemoryItem(content=text, scope="/bench", embedding=storage.embedder([text])[0])])

    async def search(query: str) -> object:
        return storage.search(storage.embedder([query])[0], scope_prefix="/bench", limit=LIMIT)

    yield Operations(put, search)


@asynccontextmanager
async def _chatdev(memory: devmem.Memory) -> AsyncIterator[Operations]:
    # It opens its stores itself, so it writes beside the memory; ChatDev's folder is on PYTHONPATH.
    from runtime.bootstrap.schema import ensure_schema_registry_populated

    ensure_schema_registry_populated()
    from devmem.adapters.chatdev import install

    install()
    from entity.configs.node.memory import MemoryStoreConfig
    from runtime.node.agent.memory import MemoryFactory
    from runtime.node.agent.memory.memory_base import MemoryContentSnapshot, MemoryWritePayload

    place = f"{memory.store.info().location}.chatdev.db"
    declared = {"name": "notes", "type": "simple", "config": {"memory_path": place}}
    store = MemoryFactory.create_memory(MemoryStoreConfig.from_dict(declared, path="memory[0]"))
    store.load()

    async def put(text: str) -> None:
        store.update(MemoryWritePayload("", text, None, MemoryContentSnapshot(text="Noted.")))

    async def search(query: str) -> object:
        return store.retrieve("", MemoryContentSnapshot(text=query), LIMIT, -1.0)

    yield Operations(put, search)


OPERATIONS: Final = {
    "mcp": _mcp,
    "langgraph": _langgraph,
    "openai_agents": _openai_agents,
    "anthropic": _anthropic,
    "google_adk": _google_adk,
    "llama_index": _llama_index,
    "strands": _strands,
    "agent_framework": _agent_framework,
    "pydantic_ai": _pydantic_ai,
    "crewai": _crewai,
    "chatdev": _chatdev,
}
"""By the name of the adapter's module."""
