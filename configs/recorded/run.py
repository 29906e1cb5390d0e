"""Three agents and two tools, recorded: `python -m configs.recorded.run`. It needs no network and no key.

The planner asks the researcher, who looks things up, and the accountant, who has two tools. Everything that they say to
each other is recorded by the decorators; nothing else in their code knows of it.
"""

from __future__ import annotations

import re
import shutil
from datetime import date
from pathlib import Path
from typing import Final

from rich.console import Console

from devmem import (
    MemoryBase,
    MemoryItem,
    Workflow,
    load_workflow,
    open_stores,
    record_agent,
    record_knowledge,
    record_llm,
    record_tool,
)
from devmem.messages import Message, Role
from devmem.recording import InteractionRecorder, pending_file
from devmem.stores import ChatRequest, MemoryQuery, open_chat_model
from devmem.views.diagrams import call_tree, timeline_lines, tree_lines
from devmem.workflow import session_folder
from devmem_stores.conversation import ConversationMemory

_STORES: Final = Path(__file__).parent / "stores.yaml"
_SESSION: Final = "recorded"
_FACTS: Final = ("The launch is on 2025-06-02.", "The workshop is on 2025-06-20.", "The venue is the Old Mill.")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


@record_tool("days_between")
def days_between(first: str, last: str) -> int:
    """Return the number of days from one ISO date to another."""
    return (date.fromisoformat(last) - date.fromisoformat(first)).days


@record_tool("multiply")
def multiply(number: int, price: int) -> int:
    """Return what a number of things costs."""
    return number * price


class Team:
    """The planner, the researcher and the accountant."""

    def __init__(self, facts: MemoryBase) -> None:
        """Take the store of what is known."""
        self._facts, self._model = facts, open_chat_model("extractive")

    @record_agent("planner", input_field="question")
    def plan(self, question: str) -> str:
        """Answer a question with what the others find out."""
        found = self.research(question)
        first, last = sorted(_DAY.findall(found))
        return self.account(first, last, places=40, price=85)

    @record_agent("researcher", input_field="question")
    def research(self, question: str) -> str:
        """Look things up, and have the model quote what fits."""
        with record_knowledge("facts", question) as call:
            hits = self._facts.search(MemoryQuery(text=question, limit=2))
            call.output([hit.snippet for hit in hits])
        with record_llm("extractive", question) as call:
            asked = Message(role=Role.USER, content=question, source="researcher")
            answer = self._model.complete(ChatRequest(messages=(asked,), recalled=tuple(hits))).text
            call.output(answer)
        return answer

    @record_agent("accountant")
    def account(self, first: str, last: str, *, places: int, price: int) -> str:
        """Work out the days and the costs."""
        return f"{days_between(first, last)} days, {multiply(places, price):,} euros"


def run(workflow: Workflow) -> None:
    """Run the team once, and print its calls as a tree and its conversation as a timeline."""
    with open_stores(workflow, session=_SESSION) as stores:
        facts, memory = stores["facts"], stores["global"]
        facts.add([MemoryItem(content_summary=fact) for fact in _FACTS])
        if not isinstance(memory, ConversationMemory):
            raise TypeError("the store 'global' is of type `conversation`")
        file = pending_file(session_folder(workflow, _SESSION) / "global")
        recorder = InteractionRecorder(memory, file)
        with recorder, recorder.trace(conversation="launch", user="ann") as trace:
            Team(facts).plan("How long after the launch is the workshop?")
        lines = [*tree_lines(call_tree(memory.trace(trace.trace))), "", *timeline_lines(memory.log("launch"))]
        Console().print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def main() -> None:
    """Run the team in a session of its own."""
    workflow = load_workflow(_STORES)
    shutil.rmtree(session_folder(workflow, _SESSION), ignore_errors=True)
    run(workflow)


if __name__ == "__main__":
    main()
