import asyncio

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.contents import ChatMessageContent
from semantic_kernel.functions import KernelArguments, kernel_function

import devmem


class Notes:
    def __init__(self, memory):
        self.memory = memory

    @kernel_function(description="Look up what is remembered of a question.")
    async def recall(self, question: str) -> str:
        return await asyncio.to_thread(self.memory.context, question)

    @kernel_function(description="Remember a fact.")
    async def remember(self, fact: str) -> str:
        return await self.memory.aadd(fact)


class Scripted(ChatCompletionClientBase):
    async def _inner_get_chat_message_contents(self, chat_history, settings):
        known = "June 2nd" in chat_history.messages[0].content
        return [ChatMessageContent(role="assistant", content="On June 2nd." if known else "I do not know.")]


async def main():
    kernel = Kernel(services=[Scripted(ai_model_id="scripted")])
    kernel.add_plugin(Notes(devmem.open("notes.db").scoped(user="ann")), plugin_name="notes")
    await kernel.invoke(plugin_name="notes", function_name="remember", fact="Ann moved the launch to June 2nd.")
    agent = ChatCompletionAgent(kernel=kernel, name="assistant", instructions="Be brief. {{notes.recall $question}}")
    for question in ("When is the launch?", "Who sings?"):
        answer = await agent.get_response(question, arguments=KernelArguments(question=question))
        print(answer)


asyncio.run(main())
