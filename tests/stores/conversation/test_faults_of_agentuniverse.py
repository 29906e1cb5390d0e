"""Faults of agentUniverse's memories that must not occur here; those of its recording are in `tests/recording`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from devmem import Filter, Scope
from devmem.recording import (
    Interaction,
    InteractionKind,
    Participant,
    ParticipantType,
)
from devmem.stores import MemoryQuery
from devmem_stores.conversation import ConversationMemory
from devmem_stores.conversation.agentuniverse import from_agentuniverse
from devmem_stores.conversation.items import RecordSelection, sentence
from tests.conftest import MakeStore
from tests.stores.interactions import BOT, record


@pytest.fixture
def store(make_store: MakeStore) -> ConversationMemory:
    return make_store(ConversationMemory, memory_path="global.db")


def contents(records: Sequence[Interaction]) -> list[str]:
    return [one.content for one in records]


@pytest.mark.parametrize(
    ("where", "deleted"),
    [
        (Filter(scope=Scope(conversation="c1", agent="nobody")), 0),
        (Filter(scope=Scope(agent="ZZZ")), 0),
        (Filter(scope=Scope(trace="t2")), 2),
        (Filter(scope=Scope(conversation="c1")), 4),
        (Filter(scope=Scope(conversation="c1", trace="t1")), 2),
    ],
)
def test_a1_a_deletion_deletes_what_it_names(store: ConversationMemory, where: Filter, deleted: int) -> None:
    store.record([record(n, f"c{c}", f"t{t}") for c, t in ((1, 1), (1, 2), (2, 3)) for n in range(2)])
    assert store.delete(where=where) == deleted
    assert store.count() == 6 - deleted


def test_a5_the_newest_come_and_in_the_order_of_their_times(store: ConversationMemory) -> None:
    """Stored in another order than they happened in; A16 and A23 are the same question to other storages."""
    for number in (7, 2, 9, 0, 5, 1, 8, 3, 6, 4):
        store.record([record(number)])
    everything = RecordSelection(counterparts=frozenset(ParticipantType))
    assert contents(store.view(everything, 3)) == ["message 7", "message 8", "message 9"]
    assert contents(store.log("c")) == [f"message {number}" for number in range(10)]
    report = store.search(MemoryQuery(text="message", limit=3))
    assert [hit.item.content_summary for hit in report] == ["message 7", "message 8", "message 9"]


def test_a11_records_that_arrive_twice_or_in_a_race_are_stored_once(store: ConversationMemory) -> None:
    batches = [[record(number) for number in range(start, start + 10)] for start in (0, 5, 0, 8)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda batch: store.record(batch), batches * 3))
    assert contents(store.log("c")) == [f"message {number}" for number in range(18)]


def test_a12_a_record_of_any_length_leaves_the_others_in_the_view(store: ConversationMemory) -> None:
    store.record([record(1), record(2, content="long " * 100_000), record(3)])
    found = store.search(MemoryQuery(text="message", limit=3))
    assert [hit.item.content_summary[:9] for hit in found] == ["message 1", "long long", "message 3"]


@pytest.mark.parametrize("kind", list(InteractionKind))
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("one", [Participant("x", kind) for kind in ParticipantType])
def test_a13_whoever_says_what_to_whomever_there_is_a_sentence(
    kind: InteractionKind, language: str, one: Participant
) -> None:
    for sides in ((one, BOT), (BOT, one), (Participant(""), one)):
        said = sentence(record(1, source=sides[0], target=sides[1], kind=kind), me="bot", language=language)  # type: ignore[arg-type]
        assert "message 1" in said


def test_a17_what_is_added_is_there_at_once_with_all_of_its_parts(store: ConversationMemory) -> None:
    """A20: adding adds, and an odd number of records is as good as an even one."""
    store.record([])
    for number in range(3):
        one = record(number, extras={"agent": {"step": number}}, params={"x": [1, None]}, parent_id="p", pair_id="q")
        store.record([one])
        assert store.log("c")[-1] == one
    assert len(store.log("c")) == 3


ROW = {
    "id": "1",
    "conversation_id": "c",
    "trace_id": "t",
    "source": "ann",
    "source_type": "user",
    "target": "rag",
    "target_type": "agent",
    "type": "output",
    "content": "Because.",
    "metadata": {"timestamp": "2024-05-06T07:08:09", "pair_id": "agent_1", "params": "{}"},
    "additional_args": {"x": 1},
}


def test_an_answer_goes_from_the_answerer_to_the_asker() -> None:
    answer = from_agentuniverse(ROW)
    assert (answer.source.name, answer.target.name, answer.kind) == ("rag", "ann", InteractionKind.OUTPUT)
    assert (answer.conversation, answer.trace, answer.pair_id, answer.extras) == ("c", "t", "agent_1", {"x": 1})
    assert answer.to_json()["timestamp"] == "2024-05-06T07:08:09.000000+00:00"
    question = from_agentuniverse({**ROW, "type": "input"})
    assert (question.source.name, question.target.name) == ("ann", "rag")


def test_a_row_that_is_none_says_why() -> None:
    with pytest.raises(ValueError, match="not 'chat'"):
        from_agentuniverse({**ROW, "type": "chat"})
    with pytest.raises(ValueError, match="expected a time, found None"):
        from_agentuniverse({**ROW, "metadata": {}})
