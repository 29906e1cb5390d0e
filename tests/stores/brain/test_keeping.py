"""Conversations survive a file that cannot be used, a lost state, forgetting, and many threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from devmem import DevmemError, Filter, MemoryItem, MemoryWritePayload, Scope
from devmem.errors import MessageError
from devmem.messages import AIMessage, Message, Role
from devmem.stores import ChatReply, ChatRequest, Provenance, SourceKind, WriteStatus
from devmem.testing import FailingChat
from devmem_stores.brain import BrainMemory
from devmem_stores.brain.config import BrainBusyError, BrainFallbackError, BrainIncompleteError, CacheUnavailableError

from .conftest import MakeBrain, lose_states
from .redis_server import RedisServer


def contents(history: list[Message]) -> list[str]:
    return [message.content for message in history]


def test_a_file_that_cannot_be_used_is_said(make_brain: MakeBrain, tmp_path: Path) -> None:
    """The state stays in the process, and goes into the file when that works again."""
    file = tmp_path / "memory.json.states"
    file.mkdir()
    brain = make_brain(path="memory.json").brain()
    outcome = brain.add_talk("Hello")
    assert outcome.status is WriteStatus.STORED
    assert isinstance(outcome.failure, BrainFallbackError)
    assert outcome.failure.used == "this process's memory"
    assert isinstance(outcome.failure.causes[0], CacheUnavailableError)
    assert str(file) in str(outcome.failure)
    assert (brain.exists("Hello"), brain.is_dirty, brain.save()) == (True, True, False)
    file.rmdir()
    assert brain.save()
    assert not brain.is_dirty
    assert file.is_file()
    assert brain.add_talk("again").failure is None
    assert contents(make_brain(path="memory.json").brain().history) == ["Hello", "again"]


def test_a_damaged_file_is_left_as_it_is(make_brain: MakeBrain, tmp_path: Path) -> None:
    file = tmp_path / "memory.json.states"
    file.write_bytes(b"this is not a database, and long enough to be seen as none" * 20)
    before = file.read_bytes()
    brain = make_brain(path="memory.json").brain()
    for text in ("one", "two"):
        assert isinstance(brain.add_talk(text).failure, BrainFallbackError)
    assert contents(brain.history) == ["one", "two"]
    assert file.read_bytes() == before


def test_redis_carries_on_where_the_file_cannot_be_used(
    make_brain: MakeBrain, redis_server: RedisServer, tmp_path: Path
) -> None:
    (tmp_path / "memory.json.states").mkdir()
    brain = make_brain(path="memory.json", redis={"url": redis_server.url}).brain()
    outcome = brain.add_talk("Hello")
    assert isinstance(outcome.failure, BrainFallbackError)
    assert outcome.failure.used.startswith("Redis at")
    assert contents(make_brain(path=None, redis={"url": redis_server.url}).brain().history) == ["Hello"]


def test_two_failures_are_both_said(make_brain: MakeBrain, clock: object) -> None:
    brain = make_brain(
        chat=FailingChat(), redis={"url": "redis://127.0.0.1:1"}, max_tokens=50, summary_words=20
    ).brain()
    for n in range(4):
        outcome = brain.add_talk(f"message {n} " + "and more " * 20)
    assert isinstance(outcome.failure, BrainIncompleteError)
    assert len(outcome.failure.causes) == 2
    for text in (str(outcome.failure), outcome.reason):
        assert "keeps its conversations in" in text
        assert str(outcome.failure.causes[1]).rstrip(".") in text


@pytest.mark.parametrize("add", ["add_talk", "add_answer", "add_history", "add_knowledge"])
def test_what_is_no_message_is_refused(add: str, make_brain: MakeBrain) -> None:
    for wrong in (None, 3, {"content": "Hello"}):
        with pytest.raises(MessageError, match="takes a message or a text"):
            getattr(make_brain().brain(), add)(wrong)


def test_a_lost_state_is_rebuilt_from_the_items(
    make_brain: MakeBrain, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Numbers go on, knowledge is there, and what was imported was not said."""
    store = make_brain()
    store.brain("bob", "c").add_talk("of bob")
    brain = store.brain("ann", "c")
    imported = MemoryItem(
        content_summary="imported", scope=brain.key.scope(), provenance=Provenance(kind=SourceKind.IMPORT)
    )
    store.add([imported])
    brain.add_knowledge("The boat is blue.")
    said = [AIMessage(f"message {n}", id=str(n), cause_by="speak", metadata={"n": n}) for n in range(1, 15)]
    for message in said:
        brain.add_history(message)
    store.close()
    lose_states(tmp_path / "memory.db")
    again = make_brain().brain("ann", "c")
    assert contents(again.history) == contents(said[-10:])  # type: ignore[arg-type]
    assert again.history[-1].identical(said[-1])
    assert again.get_knowledge() == "The boat is blue."
    assert again.add_history(Message("late", id="3")).status is WriteStatus.SKIPPED
    assert again.add_history(Message("next", id="15")).status is WriteStatus.STORED
    assert again.history[-1].content == "next"
    assert "no state of a conversation was found" in caplog.text


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
    store.add_item(item)
    store.add([MemoryItem(content_summary="imported", scope=scope)])
    store.close()
    if not redis_is_up:
        redis_server.kill()
    for _ in range(2):
        store = make_brain(redis=redis)
        assert contents(store.brain("ann", "c").history) == ["question 0", "question 1"]
    store.update(payloads[2])
    assert contents(store.brain("ann", "c").history) == ["question 0", "question 1", "question 2"]


def test_a_new_conversation_is_not_a_lost_one(make_brain: MakeBrain, caplog: pytest.LogCaptureFixture) -> None:
    make_brain().brain().add_talk("Hello")
    assert "no state" not in caplog.text


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


class Killed(BaseException):
    """Ends a call where a kill would."""


@pytest.mark.parametrize(
    "forget",
    [
        lambda store: store.delete(ids=[f"ann:c:m{n}" for n in range(12)]),
        lambda store: store.trim(keep=0),
        lambda store: store.clear(),
    ],
    ids=["delete", "trim", "clear"],
)
def test_deletion_that_was_killed_halfway_is_finished_at_the_next_open(
    forget: Callable[[BrainMemory], int], make_brain: MakeBrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items were gone, and the summary that agents are shown had their text."""
    store = make_brain()
    brain = store.brain("ann", "c")
    for n in range(12):
        brain.add_talk(Message(f"secret {n}", id=f"m{n}", created_at=1e9 + n))
    assert "secret 0" in brain.historical_summary

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(BrainMemory, "_forget", killed)
        with pytest.raises(Killed):
            forget(store)
    assert store.count_memories() == 0
    assert "secret" in brain.snapshot().whole_text()
    again = make_brain().brain("ann", "c")
    assert again.snapshot().whole_text() == ""
    assert again.add_talk("go on").status is WriteStatus.STORED
    assert make_brain().brain("ann", "c").snapshot().whole_text() == "user: go on"


def test_deletion_that_failed_halfway_is_finished_by_the_next(
    make_brain: MakeBrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_brain()
    brain = store.brain("ann", "c")
    for n in range(3):
        brain.add_talk(Message(f"secret {n}", id=f"m{n}"))
    with monkeypatch.context() as patch:
        patch.setattr(BrainMemory, "_forget", lambda *_: (_ for _ in ()).throw(BrainBusyError("brain", 1)))
        with pytest.raises(BrainBusyError):
            store.delete(ids=["ann:c:m0"])
    assert store.delete(ids=["ann:c:m0"]) == 0
    assert contents(brain.history) == ["secret 1", "secret 2"]


def test_message_is_found_again_however_many_others_were_written_since(make_brain: MakeBrain) -> None:
    """A process died between item and state, and others went on in conversations of their own."""
    store = make_brain(max_messages=2)
    brain = store.brain("ann", "c")
    brain.add_talk("first")
    scope = Scope(user="ann", conversation="c")
    item = store.compose(MemoryWritePayload(inputs_text="lost", scope=scope))
    assert isinstance(item, MemoryItem)
    make_brain(max_messages=2)
    store.add_item(item)
    for n in range(100):
        store.add_item(replace(item, id=f"other {n}", scope=Scope(user="bob", conversation="c")))
    store.close()
    again = make_brain(max_messages=2)
    assert contents(again.brain("ann", "c").history) == ["first", "lost"]


def test_many_threads_in_one_conversation(make_brain: MakeBrain) -> None:
    brain = make_brain(max_messages=3, summaries_per_level=3).brain()
    start = threading.Barrier(6)

    def talk(thread: int) -> int:
        start.wait()
        taken = 0
        for n in range(10):
            assert brain.add_talk(f"message {n} of {thread}").status is WriteStatus.STORED
            taken += brain.pop_last_talk() is not None
        return taken

    with ThreadPoolExecutor(6) as pool:
        taken = sum(pool.map(talk, range(6)))
    state = brain.snapshot()
    listed = [source for summary in state.summaries for source in summary.sources]
    listed += [entry.item_id for entry in state.entries]
    assert len(set(listed)) == len(listed) == 60
    assert 0 < taken <= 60


def test_of_the_same_message_from_many_threads_one_is_taken(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    message = Message("Hello")
    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(lambda _: brain.add_history(message).status, range(12)))
    assert sorted(outcomes) == [WriteStatus.DUPLICATE] * 11 + [WriteStatus.STORED]
    assert len(brain.history) == 1


def test_the_same_message_in_two_conversations(make_brain: MakeBrain) -> None:
    """Messages may be numbered alike, and a forwarded message belongs to both."""
    store = make_brain()
    message = Message("Hello", id="1")
    for user in ("ann", "bob"):
        assert store.brain(user, "c").add_talk(message).status is WriteStatus.STORED
        assert store.brain(user, "c").exists("Hello")
    assert store.count_memories() == 2


def test_a_blank_message_is_skipped(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    assert brain.add_talk(" \n").status is WriteStatus.SKIPPED
    assert brain.set_history_summary(" ").status is WriteStatus.SKIPPED
    assert not brain.is_history_available


def test_the_event_loop_goes_on_while_the_model_works(make_brain: MakeBrain) -> None:
    """Each twin does what its method does; the loop answers meanwhile."""
    loop_went_on = threading.Event()

    class WaitingChat:
        def complete(self, request: ChatRequest) -> ChatReply:
            assert loop_went_on.wait(60)
            return ChatReply(text="TRUE")

    async def work() -> None:
        brain = make_brain(chat=WaitingChat()).brain()
        related = asyncio.create_task(brain.ais_related("one", "two"))
        await asyncio.sleep(0)
        loop_went_on.set()
        assert await related
        said = await brain.aadd_talk("Hello, this is a talk.")
        assert said.status is WriteStatus.STORED
        await brain.aadd_answer("Good day.")
        await brain.aadd_history(Message("Noted.", role=Role.TOOL))
        await brain.aadd_knowledge("The boat is blue.")
        assert await brain.apop_last_talk() == "Hello, this is a talk."
        assert "Good day." in await brain.asummarize()
        assert await brain.aget_title() == "TRUE"
        assert str(await brain.arewrite("It sails.", "The boat.")) == "TRUE"
        assert await brain.acompress() == 1
        await brain.aset_history_summary("They greeted.")
        state = await brain.asnapshot()
        assert state.historical_summary == "They greeted."
        assert [item.id for item in await brain.asources(state.summaries[0])] == [said.item_id]
        assert await brain.asave()

    asyncio.run(work())


def test_a_snapshot_does_not_change(make_brain: MakeBrain) -> None:
    brain = make_brain().brain()
    before = brain.snapshot()
    brain.add_talk("Hello")
    assert not before.is_history_available
    assert replace(brain.snapshot(), version=0) != before


def test_a_closed_store_says_so(make_brain: MakeBrain) -> None:
    store = make_brain()
    brain = store.brain()
    brain.add_talk("Hello")
    store.close()
    for use in (brain.snapshot, brain.pop_last_talk, brain.compress, lambda: brain.add_talk("again")):
        with pytest.raises(DevmemError, match="closed"):
            use()
