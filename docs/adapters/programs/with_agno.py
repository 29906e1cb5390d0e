from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse

import devmem

memory = devmem.open("notes.db")


class Scripted(Model):
    def invoke(self, messages, **_):
        shown = messages[-1].content
        return ModelResponse(role="assistant", content="On June 2nd." if "June 2nd" in shown else "I will note it.")

    ainvoke = invoke_stream = ainvoke_stream = invoke
    _parse_provider_response = _parse_provider_response_delta = invoke


def recall(query, num_documents=None, user_id=None):
    hits = memory.search(query, user=user_id, limit=num_documents or 5)
    return [{"id": hit.id, "content": hit.text} for hit in hits] or None


def remember(run_output, run_context):
    said = [
        {"role": "user", "content": run_output.input.input_content_string()},
        {"role": "assistant", "content": run_output.content},
    ]
    memory.add(said, user=run_context.user_id, conversation=run_context.session_id)


def new_agent():
    return Agent(
        model=Scripted(id="scripted"),
        knowledge_retriever=recall,
        add_knowledge_to_context=True,
        search_knowledge=False,
        post_hooks=[remember],
        telemetry=False,
    )


new_agent().run("The launch is on June 2nd now.", user_id="ann", session_id="1")
print(new_agent().run("When is the launch?", user_id="ann", session_id="2").content)
print(new_agent().run("When is the launch?", user_id="bob", session_id="3").content)
