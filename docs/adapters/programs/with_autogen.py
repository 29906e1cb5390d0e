import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import Memory, MemoryContent, MemoryQueryResult, UpdateContextResult
from autogen_core.models import SystemMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

import devmem


class DevmemMemory(Memory):
    def __init__(self, memory, user):
        self.memory, self.user = memory.scoped(user=user), user

    async def update_context(self, model_context):
        asked = (await model_context.get_messages())[-1].content
        found = await self.query(asked)
        if block := await asyncio.to_thread(self.memory.context, asked):  # Quoted, unlike the results.
            await model_context.add_message(SystemMessage(content=block))
        return UpdateContextResult(memories=found)

    async def query(self, query, cancellation_token=None, **options):
        text = query.content if isinstance(query, MemoryContent) else query
        hits = await self.memory.asearch(text, **options)
        return MemoryQueryResult(results=[MemoryContent(content=hit.text, mime_type="text/plain") for hit in hits])

    async def add(self, content, cancellation_token=None):
        await self.memory.aadd(content.content, metadata=content.metadata or {})

    async def clear(self):
        await self.memory.aforget(user=self.user)

    async def close(self):
        await self.memory.aclose()


async def main():
    memory = DevmemMemory(devmem.open("notes.db"), "ann")
    await memory.add(MemoryContent(content="Ann moved the launch to June 2nd.", mime_type="text/plain"))
    model = ReplayChatCompletionClient(["On June 2nd."])
    agent = AssistantAgent("assistant", model, memory=[memory])
    print((await agent.run(task="When is the launch?")).messages[-1].content)
    print(model.create_calls[0]["messages"][-1].content)
    await memory.clear()
    print((await memory.query("When is the launch?")).results)


asyncio.run(main())
