"""Conversations survive a file that cannot be used, a lost state, forgetting, and many threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devmem import DevmemError, Filter, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import MessageError
from devmem.messages import AIMessage, Message
from devmem.storage import EraseRequest
from devmem.stores import WriteStatus
from devmem.testing import FailingChat
from devmem_stores.brain import BrainMemory
from tests.command_line import run_devmem

from .conftest import MakeBrain, RedisServer, lose_states


def contents(history: list[Message]) -> list[str]:
    return [message.content for message in history]


def test_two_failures_are_both_said(make_brain: MakeBrain, clock: object) -> None:
    brain = make_brain(
        chat=FailingChat(), redis={"url": "redis://127.0.0.1:1"}, max_tokens=50, summary_words=20
    ).brain()
    for n in range(4):
        outcome = brain.add_talk(f"message {n} " + "and more " * 20)
    for text in (str(outcome.failure), outcome.reason):
        assert "Redis at 127.0.0.1:1 could not" in text
        assert "the chat service of this test is down" in text


@pytest.mark.parametrize("redis_is_up", [True, False])
def test_a_process_that_dies_between_item_and_state(
    make_brain: MakeBrain, redis_server: RedisServer, redis_is_up: bool
) -> None:
    """A message stored before it was in the history is there after the next opening, once and in its place."""
    redis = {"url": redis_server.url}
    store = make_brain(redis=redis)
    scope = Scope(user="ann", conversation="c")
    payloads = [MemoryWritePayload(inputs_text=f"question {n}", scope=scope, source="helper") for n in range(3)]
    store.update(payloads[0])
    item = store.compose(payloads[1])
    assert isinstance(item, MemoryItem)
    store.store_items([item])
    store.add([MemoryItem(content_summary="imported", scope=scope)])
    store.close()
    if not redis_is_up:
        redis_server.kill()
    for _ in range(2):
        store = make_brain(redis=redis)
        assert contents(store.brain("ann", "c").history) == ["question 0", "question 1"]
    store.update(payloads[2])
    assert contents(store.brain("ann", "c").history) == ["question 0", "question 1", "question 2"]


def test_forgetting_a_message_forgets_its_summary(make_brain: MakeBrain) -> None:
    """The other messages of the summary are history again, and in the next summary."""
    store = make_brain()
    brain = store.brain("ann", "c")
    for n in range(12):
        brain.add_talk(Message(f"message {n}", id=f"m{n}", created_at=1e9 + n))
    assert [summary.messages for summary in brain.summaries] == [10]
    assert store.delete(ids=["ann:c:m4", "nobody"]) == 1
    assert brain.historical_summary == ""
    assert [message.id for message in brain.history] == [f"m{n}" for n in range(12) if n != 4]
    brain.add_talk("go on")
    assert "message 4" not in brain.historical_summary
    assert [summary.messages for summary in brain.summaries] == [10]


def test_forgetting_by_scope_by_age_and_all(make_brain: MakeBrain) -> None:
    store = make_brain()
    ann, bob = store.brain("ann", "c"), store.brain("bob", "c")
    for brain in (ann, bob):
        for n in range(3):
            brain.add_talk(f"message {n}")
    ann.add_knowledge("The boat is blue.")
    assert store.delete(where=Filter(scope=Scope(user="bob"))) == 3
    assert (bob.history, bob.last_talk) == ([], None)
    assert store.trim(keep=2) == 2
    assert contents(ann.history) == ["message 2"]
    assert ann.last_talk == "message 2"
    assert store.clear() == 2
    assert not ann.is_history_available
    assert ann.get_knowledge() == ""
    assert make_brain().brain("ann", "c").history == []


@pytest.mark.parametrize(
    "forget",
    [
        lambda store: store.delete(ids=[f"ann:c:m{n}" for n in range(12)]),
        lambda store: store.trim(keep=0),
        BrainMemory.clear,
    ],
    ids=["delete", "trim", "clear"],
)
def test_deletion_that_is_interrupted_leaves_no_text_of_a_deleted_item(
    forget: Callable[[BrainMemory], int], make_brain: MakeBrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The conversation forgets before the items go: a summary never tells of an item that is gone."""
    store = make_brain()
    brain = store.brain("ann", "c")
    for n in range(12):
        brain.add_talk(Message(f"secret {n}", id=f"m{n}", created_at=1e9 + n))

    def killed(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    for name in ("delete", "trim", "clear"):
        monkeypatch.setattr(store.collection, name, killed)
    with pytest.raises(KeyboardInterrupt):
        forget(store)
    assert brain.snapshot().whole_text() == ""
    again = make_brain()
    assert again.brain("ann", "c").snapshot().whole_text() == ""
    assert forget(again) == 12


def test_the_latest_messages_without_a_state_are_history_at_the_next_opening(
    make_brain: MakeBrain, tmp_path: Path
) -> None:
    """As of copied items: numbers go on, knowledge is there, and what was imported was not said."""
    store = make_brain()
    brain = store.brain("ann", "c")
    said = [AIMessage(f"message {n}", id=str(n), cause_by="speak", metadata={"n": n}) for n in range(1, 15)]
    for message in said:
        brain.add_history(message)
    brain.add_knowledge("The boat is blue.")
    store.add([MemoryItem(content_summary="imported", scope=brain.key.scope())])
    store.close()
    lose_states(tmp_path / "memory.db")
    again = make_brain().brain("ann", "c")
    assert contents(again.history) == contents(said[-8:])  # type: ignore[arg-type]
    assert again.history[-1].identical(said[-1])
    assert again.get_knowledge() == "The boat is blue."
    assert again.add_history(Message("late", id="3")).status is WriteStatus.SKIPPED
    assert again.add_history(Message("next", id="15")).status is WriteStatus.STORED


def test_a_state_that_cannot_be_written_costs_no_message(make_brain: MakeBrain, tmp_path: Path) -> None:
    """The outcome says so, and the message is history at the next opening."""
    store, states = make_brain(path="memory.json"), tmp_path / "memory.json.states"
    states.mkdir()
    outcome = store.update(MemoryWritePayload(inputs_text="Hello", scope=Scope(user="ann")))
    assert outcome.status is WriteStatus.STORED
    assert str(states) in outcome.reason
    with pytest.raises(DevmemError, match="states"):
        store.brain("ann").add_talk("again")
    states.rmdir()
    assert contents(make_brain(path="memory.json").brain("ann").history) == ["Hello"]


def test_of_the_same_message_from_many_threads_one_is_taken(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    message = Message("Hello")
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda _: brain.add_history(message).status, range(12)))
    assert sorted(outcomes) == [WriteStatus.DUPLICATE] * 11 + [WriteStatus.STORED]
    assert len(brain.history) == 1


def test_what_is_no_message_is_refused(make_brain: MakeBrain) -> None:
    with pytest.raises(MessageError, match="takes a message or a text"):
        make_brain().brain().add_talk(3)  # type: ignore[arg-type]


def test_an_erased_message_stays_out(make_brain: MakeBrain, tmp_path: Path) -> None:
    """The backup has the conversation as it was, and the tombstones beside the file tell what is gone since."""
    store = make_brain()
    store.brain().add_talk("The door code is 4711-Zeta.")
    store.brain().add_talk("Tea is at three.")
    run_devmem("backup", tmp_path / "memory.db", tmp_path / "saved.db")
    store.erase_selected(EraseRequest(text="4711-Zeta", tombstone=True))
    store.close()
    run_devmem("backup", tmp_path / "memory.db", tmp_path / "saved.db", "--restore", "--force")
    history = make_brain().brain().history
    assert [message.content for message in history] == ["Tea is at three."]
