"""Summaries of older records, and trimming by tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from devmem import Caller, Filter, Memory, MemoryItem, Scope
from devmem.errors import ChatModelError
from devmem.recording import Interaction
from devmem.stores import MemoryQuery
from devmem.testing import FailingChat, ScriptedChat
from devmem_stores.conversation import ConversationMemory
from tests.conftest import MakeStore
from tests.stores.interactions import record

Open = Callable[..., ConversationMemory]


@pytest.fixture
def open_store(make_store: MakeStore) -> Open:
    """Open a store that summarizes, with a language model or without."""

    def opened(chat: ScriptedChat | None = None, **summary: Any) -> ConversationMemory:
        options = {"keep": 2, "words": 20, **summary, **({"llm": {"model": "m"}} if chat else {})}
        return make_store(ConversationMemory, chat=chat, memory_path="global.db", summary=options)

    return opened


@pytest.fixture
def store(open_store: Open) -> ConversationMemory:
    return open_store()


def tell(memory: ConversationMemory, *numbers: int, conversation: str = "c", words: int = 8) -> None:
    memory.record(
        [
            record(
                number,
                conversation,
                f"t{number}",
                id=f"{conversation}{number}",
                content=f"Fact {number} says that " + "so " * words,
                pair_id=f"{conversation}{number}",
            )
            for number in numbers
        ]
    )


def summaries(memory: ConversationMemory, agent: str = "bot") -> list[Interaction]:
    return memory.records(Filter(metadata={"type": "summary", "target": agent}))


def shown(memory: ConversationMemory, top_k: int = 20) -> list[str]:
    query = MemoryQuery(text="x", limit=top_k, caller=Caller(agent="bot"))
    return [hit.item.content_summary for hit in memory.search(query)]


def test_a_summary_stands_for_what_is_older_and_the_next_one_continues_it(open_store: Open) -> None:
    chat = ScriptedChat("First summary.", "First of all.", "Second summary.", "Second of all.")
    store = open_store(chat)
    tell(store, *range(8))
    assert store.compress() == 12, "6 records for the agent, and 6 for everybody"
    assert store.compress() == 0, "nothing is new"
    assert [one.extras["records"] for one in summaries(store)] == [6]
    assert shown(store)[0].endswith("First of all.")
    assert [text[:25] for text in shown(store)[1:]] == ["User ann asked you: Fact ", "User ann asked you: Fact "]
    tell(store, 8, 9)
    assert store.compress() == 4
    assert "First of all." in chat.asked[-1], "the last summary is continued"
    assert "Fact 1 " not in chat.asked[-1]
    assert shown(store)[0].endswith("Second of all.")
    assert len(shown(store)) == 3
    assert len(shown(store, 2)) == 2
    assert store.count(Filter(metadata={"interaction": True})) == 10 + 4, "the records stay"


def test_without_a_model_sentences_are_selected(store: ConversationMemory) -> None:
    tell(store, *range(8))
    assert store.compress() == 12
    (made,) = summaries(store)
    assert made.extras["method"] == "extract"
    assert shown(store)[0].startswith("Summary of what was said before: ")


def test_a_model_that_is_down_loses_nothing(open_store: Open) -> None:
    store = open_store(FailingChat())
    tell(store, *range(8))
    with pytest.raises(ChatModelError):
        store.compress()
    assert len(shown(store)) == 8


def test_nothing_that_is_forgotten_stays_in_a_summary(store: ConversationMemory) -> None:
    tell(store, *range(8))
    store.compress()
    assert store.delete(ids=["c1"]) == 1
    assert summaries(store) == summaries(store, "") == []
    assert store.compress() == 10
    assert all("Fact 1 " not in one.content for one in summaries(store))
    assert store.delete(where=Filter(scope=Scope(trace="t7"))) == 1
    assert len(summaries(store)) == 1, "it does not tell of the newest"


def test_trimming_by_tokens_keeps_the_newest(store: ConversationMemory) -> None:
    tell(store, *range(8))
    assert store.trim_to_tokens(40) > 0
    kept = [item.id for item in store.scan()]
    assert kept == [f"c{number}" for number in range(8 - len(kept), 8)]
    assert kept


def test_one_oversize_record_is_shortened_in_place_of_losing_everything(store: ConversationMemory) -> None:
    tell(store, 1, 2)
    tell(store, 3, words=500)
    assert store.trim_to_tokens(50) == 2
    (left,) = store.log("c")
    assert left.id == "c3"
    assert left.content.startswith("Fact 3 says")
    assert len(left.content) < 300
    assert store.trim_to_tokens(50) == 0


def test_trimming_keeps_within_a_filter(store: ConversationMemory) -> None:
    tell(store, *range(4))
    tell(store, *range(4), conversation="d")
    assert store.trim_to_tokens(1, Filter(scope=Scope(conversation="d"))) == 3
    assert len(store.log("c")) == 4


def test_a_summary_is_trusted_no_more_than_its_records(store: ConversationMemory) -> None:
    """It names them, and the summary before, and goes with the first of them that expires."""
    tell(store, *range(6))
    doubtful = replace(store.get(["c1"])[0], trust=0.3, expires_at=9e9)
    store.add([doubtful])
    store.compress()
    first = summaries_in(store)[0]
    assert (first.trust, first.expires_at) == (0.3, 9e9)
    assert set(first.provenance.parents) == {"c0", "c1", "c2", "c3"}
    tell(store, 6, 7, 8)
    store.compress()
    second = next(one for one in summaries_in(store) if one.id != first.id)
    assert (second.trust, second.expires_at) == (0.3, 9e9)
    assert {first.id, "c4"} < set(second.provenance.parents)


def test_what_is_in_quarantine_is_in_no_summary(store: ConversationMemory) -> None:
    """Nor does a summary keep the trust of a record that lost its own."""
    tell(store, *range(6))
    memory = Memory(store)
    memory.update("c1", trust=0)
    store.compress()
    (made,) = summaries_in(store)
    assert made.trust == 0.8
    assert set(made.provenance.parents) == {"c0", "c2", "c3"}
    memory.update("c2", trust=0.8)
    assert summaries_in(store) == [made]
    memory.update("c2", trust=0.2)
    assert summaries_in(store) == []
    store.compress()
    assert [one.trust for one in summaries_in(store)] == [0.2]


def summaries_in(store: ConversationMemory) -> list[MemoryItem]:
    """Return the summaries of everybody's view."""
    return list(store.scan(Filter(metadata={"type": "summary", "target": ""})))
