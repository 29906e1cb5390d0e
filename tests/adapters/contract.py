"""The contract of adapters: what was said is kept, all of it once, as its speaker's; a prompt gets nothing twice.

An adapter's tests inherit the parts that its host has, and say how the host does it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

import devmem
from devmem import MemoryItem
from devmem.stores import SourceKind
from tests.adapters.recording import recalls_in, recording_memory

NOTE: Final = "The hall is booked for June 2nd."
QUESTION: Final = "When is the launch of the ferry?"
ANSWER: Final = "The launch of the ferry is on June 2nd."
RESULT: Final = "launch: the pier is free until nine"
"""Text that a tool returned."""
ORIGINS: Final = {
    NOTE: (SourceKind.NODE, 0.8),
    QUESTION: (SourceKind.USER, 1.0),
    ANSWER: (SourceKind.NODE, 0.8),
    RESULT: (SourceKind.TOOL, 0.4),
}
"""Kind of the source and trust of each text."""


def actors(memory: devmem.Memory) -> set[str | None]:
    """Return whom the history names as those who wrote everybody's records first."""
    everybody = memory.scoped(user=devmem.ANY)
    return {everybody.history(record.id)[0].actor for record in everybody}


def everything(memory: devmem.Memory) -> dict[str, MemoryItem]:
    """Return the items of everybody, by their texts."""
    return {record.text.strip(): record for record in memory.scoped(user=devmem.ANY)}


class Notes(ABC):
    """Of hosts whose model, or program, decides what to keep."""

    @abstractmethod
    def note(self, memory: devmem.Memory, text: str) -> None:
        """Keep a text as the model does."""

    def test_what_a_model_keeps_is_an_agents_word_and_not_the_users(self, memory: devmem.Memory) -> None:
        for handle in (memory, memory.scoped(user="ann"), memory.scoped(agent="cook")):
            self.note(handle, NOTE)
        kept = [record for record in memory.scoped(user=devmem.ANY) if NOTE in record.text]
        assert len(kept) == 3
        assert [item.trust for item in kept] == [0.8] * 3
        assert SourceKind.USER not in {item.provenance.kind for item in kept}
        assert None not in actors(memory), "the history names who wrote"


class Talks(ABC):
    """Of hosts that hand on what was said."""

    keeps_results: bool = False
    """Whether results of tools are kept; otherwise nothing of them is."""

    @abstractmethod
    def talk(self, memory: devmem.Memory) -> None:
        """Hand on the question, the answer, and a tool's result in between."""

    def test_what_was_said_has_the_origin_of_its_role(self, memory: devmem.Memory) -> None:
        self.talk(memory)
        kept = everything(memory)
        expected = {QUESTION, ANSWER, *([RESULT] if self.keeps_results else [])}
        assert expected <= kept.keys()
        assert {text: (item.provenance.kind, item.trust) for text, item in kept.items() if text in ORIGINS} == {
            text: ORIGINS[text] for text in expected
        }
        assert None not in actors(memory), "the history names who wrote"

    def test_a_tools_result_is_found_by_its_text_or_not_kept(self, memory: devmem.Memory) -> None:
        self.talk(memory)
        assert all(item.content_summary.strip() for item in everything(memory).values())
        assert (RESULT in [hit.text for hit in memory.search("the pier")]) is self.keeps_results


EXCHANGES: Final = [
    ("status?", "Done."),
    ("status?", "Done."),
    ("yes", "yes"),
    ("Order 2, please.", "Done."),
    ("yes", "Done."),
    ("status?", "Done."),
] * 3
"""A conversation of which hardly a message could be told from another by its text."""
_PAGES: Final = Path(__file__).parents[2] / "docs" / "adapters"


class Histories(ABC):
    """Of hosts that hand on conversations: new messages, whole histories, or messages with ids of their own."""

    page: str
    """Name of the host's page."""
    hands_on: str
    """Kind of messages that the host hands on, in the words of the page's first lines."""

    @abstractmethod
    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        """Have a conversation of questions and answers, as a program of the host has it, turn by turn."""

    def test_every_message_of_a_conversation_is_kept_once(self, memory: devmem.Memory) -> None:
        self.converse(memory, EXCHANGES)
        assert _said(memory) == [text for exchange in EXCHANGES for text in exchange]

    def test_equal_conversations_are_kept_apart(self, memory: devmem.Memory) -> None:
        for exchanges in (1, 1, 1, 2, 2):
            self.converse(memory, EXCHANGES[:exchanges])
        assert _said(memory) == ["status?", "Done."] * 7

    def test_the_page_says_in_its_first_lines_what_the_host_hands_on(self) -> None:
        first = "".join((_PAGES / f"{self.page}.md").read_text(encoding="utf-8").splitlines()[:6])
        assert f"**{self.hands_on}**" in first


def _said(memory: devmem.Memory) -> list[str]:
    """Return the texts of everybody's messages, in the order in which they were stored."""
    return [record.text for record in memory.scoped(user=devmem.ANY) if record.role]


MEALS: Final = {"noodles": "2026-11-26T08:00:00+08:00", "congee": "2026-11-25T08:00:00+08:00"}
"""Meals, and when they were eaten."""
MEAL: Final = "What did I eat yesterday?"
ASKED: Final = {"noodles": "2026-11-27T07:00:00+08:00", "congee": "2026-11-26T23:00:00+00:00"}
"""Meals of the day before a question, and when it is asked: one moment in two zones."""


def asked_about(meal: str) -> AbstractContextManager[None]:
    """Ask on the day after a meal."""
    return devmem.asking_at(datetime.fromisoformat(ASKED[meal]))


class Recalls(ABC):
    """Of hosts whose prompts get what is recalled."""

    @abstractmethod
    def recalled(self, memory: devmem.Memory, *shown: str) -> str:
        """Return the block that a prompt gets which has these texts already, the last of which is the question."""

    def test_what_the_prompt_shows_is_not_recalled_into_it(self, memory: devmem.Memory) -> None:
        earlier = "The ferry's launch was moved by Ann."
        for text in (QUESTION, f" {earlier}\n", ANSWER):
            memory.add(text)
        block = self.recalled(memory, earlier, QUESTION)
        assert ANSWER in block
        assert earlier not in block
        assert QUESTION not in block

    def test_a_message_that_needs_no_memory_gets_none(self, memory: devmem.Memory) -> None:
        memory.add(ANSWER)
        assert self.recalled(memory, "Thanks!") == ""

    def test_a_memory_that_fails_costs_the_run_nothing(
        self, memory: devmem.Memory, caplog: pytest.LogCaptureFixture
    ) -> None:
        memory.add(ANSWER)
        memory.close()
        assert self.recalled(memory, QUESTION) == ""
        assert "nothing is recalled" in caplog.text

    def test_a_line_says_who_spoke(self, memory: devmem.Memory) -> None:
        said = {"user": "Put the launch of the ferry on June 2nd.", "assistant": "The ferry's launch needs a permit."}
        memory.add([{"role": role, "content": text} for role, text in said.items()])
        block = self.recalled(memory, QUESTION)
        assert all(f"{role}: {text}" in block for role, text in said.items())

    @pytest.mark.parametrize("meal", MEALS)
    def test_yesterday_is_that_of_the_asker(self, memory: devmem.Memory, meal: str) -> None:
        for text, when in MEALS.items():
            memory.add(f"I ate {text}.", time=when)
        with asked_about(meal):
            block = self.recalled(memory, MEAL)
        assert [one for one in MEALS if one in block] == [meal]

    def test_what_a_prompt_gets_is_recorded(self, tmp_path: Path) -> None:
        with recording_memory(tmp_path) as memory:
            item = memory.add(ANSWER)
            block = self.recalled(memory, QUESTION)
        (step,) = recalls_in(tmp_path)
        assert ANSWER in block
        assert ANSWER in (step.block or "")
        assert step.query == QUESTION
        assert step.node
        assert [(entry.store, entry.item) for entry in step.entries] == [("notes", item)]


class Searches(ABC):
    """Of hosts whose agents search."""

    @abstractmethod
    def found(self, memory: devmem.Memory, query: str) -> int:
        """Search as an agent of the host does, and return the number of results."""

    def keep(self, memory: devmem.Memory, text: str, time: str | None = None) -> None:
        """Store a text where the host's search finds it."""
        memory.add(text, time=time, agent=self.agent)

    agent: str | None = None
    """Agent whose items the host's search is limited to; None where it searches those of all agents."""

    def test_what_an_agent_finds_is_recorded(self, tmp_path: Path) -> None:
        with recording_memory(tmp_path) as memory:
            self.keep(memory.scoped(user="ann"), ANSWER)
            found = self.found(memory.scoped(user="ann"), QUESTION)
        (step,) = recalls_in(tmp_path)
        assert found == 1
        assert step.user == "ann"
        assert step.node
        assert [(entry.store, entry.user) for entry in step.entries] == [("notes", "ann")]
        assert ANSWER in (step.block or "")

    def test_yesterday_is_that_of_the_asker(self, tmp_path: Path) -> None:
        with recording_memory(tmp_path) as memory:
            ann = memory.scoped(user="ann")
            for meal, when in MEALS.items():
                self.keep(ann, f"I ate {meal}.", when)
            for meal in ASKED:
                with asked_about(meal):
                    self.found(ann, MEAL)
            texts = {item.id: item.text for item in ann}
        best = [texts[step.entries[0].item] for step in recalls_in(tmp_path)]
        assert best == [f"I ate {meal}." for meal in ASKED]
