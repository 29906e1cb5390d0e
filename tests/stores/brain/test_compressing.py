"""Older messages become summaries, level upon level; nothing of what was said is lost."""

from __future__ import annotations

import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devmem import Memory, MemoryContentSnapshot, MemoryWritePayload
from devmem.errors import ChatModelError, CollectionError
from devmem.messages import Message
from devmem.models import split_texts
from devmem.stores import ChatReply, ChatRequest, WriteStatus
from devmem.testing import FailingChat, ManualClock, ScriptedChat
from devmem_stores.brain.conversation import Brain
from tests.generated import examples

from .conftest import MakeBrain


def talk(brain: Brain, count: int, *, start: int = 0, words: int = 4) -> None:
    for n in range(start, start + count):
        message = Message(f"message {n} " + "and more " * (words // 2), created_at=1e9 + n, id=f"m{n}")
        assert brain.add_talk(message).status is WriteStatus.STORED


def test_ten_older_messages_become_a_summary(make_brain: MakeBrain) -> None:
    store = make_brain()
    brain = store.brain("ann", "c")
    talk(brain, 11)
    assert brain.historical_summary == ""
    talk(brain, 1, start=11)
    summary = brain.summaries[0]
    assert len(brain.summaries) == 1
    assert (summary.level, summary.messages, summary.start, summary.end) == (1, 10, 1e9, 1e9 + 9)
    assert [message.id for message in brain.history] == ["m10", "m11"]
    assert [item.event_time for item in brain.sources(summary)] == [1e9 + n for n in range(10)]
    assert summary.sources == tuple(f"ann:c:m{n}" for n in range(10))
    assert "message 3 " in store.retrieve("", "message 3", 1)[0].content_summary
    assert store.count() == 12


def test_what_is_trusted_less_is_trusted_less_in_its_conversation(make_brain: MakeBrain) -> None:
    """Whether it is summarized already or not; what is in quarantine leaves history and summaries."""
    store = make_brain(keep_messages=2)
    brain, memory = store.brain("ann", "c"), Memory(store)
    talk(brain, 12)
    memory.update("ann:c:m3", trust=0.2)
    memory.update("ann:c:m10", trust=0.3)
    assert brain.summaries[0].trust == 0.2
    assert [entry.trust for entry in brain.snapshot().entries] == [0.3, 1.0]
    memory.update("ann:c:m3", trust=0)
    assert brain.summaries == ()
    assert [message.id for message in brain.history] == [f"m{n}" for n in range(12) if n != 3]
    brain.compress()
    assert brain.compress() == 0
    assert "message 3 " not in brain.snapshot().whole_text()
    assert store.count() == 12


def test_ten_summaries_become_one_of_the_next_level(make_brain: MakeBrain) -> None:
    brain = make_brain(keep_messages=1).brain()
    talk(brain, 111)
    top, after = brain.summaries
    assert [(s.level, s.messages, s.start, s.end) for s in (top, after)] == [
        (2, 100, 1e9, 1e9 + 99),
        (1, 10, 1e9 + 100, 1e9 + 109),
    ]
    assert top.sources == tuple(f"m{n}" for n in range(100))
    assert brain.historical_summary == f"{top.text}\n{after.text}"
    assert brain.history_text == brain.historical_summary


def test_many_tokens_are_compressed_sooner(make_brain: MakeBrain) -> None:
    brain = make_brain(max_tokens=150).brain()
    talk(brain, 3, words=30)
    assert brain.historical_summary == ""
    talk(brain, 1, start=3, words=60)
    summary = brain.summaries[0]
    assert len(brain.summaries) == 1
    assert (summary.messages, summary.method) == (2, "whole")
    assert len(brain.history) == 2


def test_the_messages_of_an_exchange_stay_together(make_brain: MakeBrain) -> None:
    store = make_brain(keep_messages=1, max_messages=3)
    outcomes = [
        store.update(
            MemoryWritePayload(inputs_text=f"question {n}?", output_snapshot=MemoryContentSnapshot(text=f"answer {n}"))
        )
        for n in range(5)
    ]
    brain = store.brain()
    assert [summary.messages for summary in brain.summaries] == [2] * 3
    assert [m.content for m in brain.history] == ["question 3?", "answer 3", "question 4?", "answer 4"]
    assert [source for s in brain.summaries for source in s.sources] == [o.item_id for o in outcomes[:3]]


def test_a_model_that_is_down_costs_no_message(make_brain: MakeBrain, clock: ManualClock) -> None:
    chat = FailingChat(*["They counted."] * 3)
    brain = make_brain(chat=chat, summary_words=20).brain()
    talk(brain, 11)
    outcomes = [brain.add_talk(Message("more words than that", created_at=2e9 + n)) for n in range(6)]
    assert {outcome.status for outcome in outcomes} == {WriteStatus.STORED}
    assert all(isinstance(outcome.failure, ChatModelError) for outcome in outcomes)
    assert chat.refused == 1
    assert (len(brain.history), brain.summaries) == (17, ())
    with pytest.raises(ChatModelError):
        brain.compress()
    chat.recover()
    clock.advance(60)
    assert brain.add_talk("and on").failure is None
    assert [summary.messages for summary in brain.summaries] == [10]
    assert len(brain.history) == 8


def test_a_long_backlog_is_worked_off_over_several_writes(make_brain: MakeBrain, clock: ManualClock) -> None:
    """No write waits for all of it."""
    chat = FailingChat()
    brain = make_brain(chat=chat, summary_words=20).brain()
    talk(brain, 100)
    chat.recover()
    clock.advance(600)
    talk(brain, 1, start=100)
    assert (len(chat.requests), len(brain.history)) == (5, 51)
    talk(brain, 2, start=101)
    assert [summary.messages for summary in brain.summaries] == [100]
    assert len(brain.history) == 3


def test_a_disk_that_fills_up_while_the_model_works_costs_no_message(make_brain: MakeBrain, tmp_path: Path) -> None:
    """The message is stored by then, and the outcome says so; it is summarized once there is room."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    class FillingChat:
        def complete(self, request: ChatRequest) -> ChatReply:
            size = limits[0] if has_room else (tmp_path / "memory.db-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
            return ChatReply(text="They counted.")

    has_room = False
    brain = make_brain(chat=FillingChat(), summary_words=20).brain()
    talk(brain, 11)
    try:
        outcome = brain.add_talk("more words than that")
        with pytest.raises(CollectionError):
            brain.compress()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    has_room = True
    assert outcome.status is WriteStatus.STORED
    assert isinstance(outcome.failure, CollectionError)
    assert outcome.reason.startswith("what was said is kept, but older messages are not summarized: ")
    assert (len(brain.history), brain.summaries) == (12, ())
    assert brain.compress() == 10


def test_compressing_on_demand(make_brain: MakeBrain) -> None:
    store = make_brain()
    for user in ("ann", "bob"):
        talk(store.brain(user, "c"), 5)
    assert store.compress() == 6
    assert store.compress() == 0
    assert [message.id for message in store.brain("bob", "c").history] == ["m3", "m4"]
    assert store.count() == 10


def test_what_is_added_while_the_model_works_stays(make_brain: MakeBrain) -> None:
    """The model is asked while nothing is locked."""
    asked, answer = threading.Event(), threading.Event()

    class SlowChat:
        def complete(self, request: ChatRequest) -> ChatReply:
            asked.set()
            assert answer.wait(60)
            return ChatReply(text="They counted.")

    brain = make_brain(chat=SlowChat(), summary_words=20).brain()
    talk(brain, 11)
    with ThreadPoolExecutor(1) as pool:
        last = pool.submit(talk, brain, 1, start=11)
        assert asked.wait(60)
        talk(brain, 1, start=12)
        answer.set()
        last.result()
    assert brain.historical_summary == "They counted."
    assert [message.id for message in brain.history] == ["m10", "m11", "m12"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(15))
@given(
    steps=st.lists(st.sampled_from(["talk", "exchange", "long", "compress", "summary"]), max_size=40),
    keep=st.integers(1, 4),
    group=st.integers(2, 4),
)
def test_every_message_is_in_the_history_or_a_summary(
    make_brain: MakeBrain, steps: list[str], keep: int, group: int
) -> None:
    store = make_brain(path=None, keep_messages=keep, max_messages=3, summaries_per_level=group, max_tokens=200)
    brain = store.brain()
    ids: list[str | None] = []
    for n, step in enumerate(steps):
        if step == "talk":
            ids.append(brain.add_talk(f"message {n}").item_id)
        elif step == "long":
            ids.append(brain.add_answer(f"answer {n} " + "with many words " * 60).item_id)
        elif step == "exchange":
            payload = MemoryWritePayload(inputs_text=f"q {n}", output_snapshot=MemoryContentSnapshot(text=f"a {n}"))
            ids.append(store.update(payload).item_id)
        elif step == "compress":
            brain.compress()
        else:
            brain.set_history_summary(f"all until {n}")
    state = brain.snapshot()
    listed = [source for summary in state.summaries for source in summary.sources]
    listed += list(dict.fromkeys(entry.item_id for entry in state.entries))
    assert listed == ids
    assert store.count() == len(ids)
    if ids:
        assert ids[-1] in {entry.item_id for entry in state.entries}


@given(text=st.text(max_size=400), window=st.integers(-5, 120))
def test_windows_hold_the_whole_text(text: str, window: int) -> None:
    parts = split_texts(text, window)
    size = window if window > 0 else 500
    overlap = 20 if size > 20 else 0
    assert all(len(part) <= size for part in parts)
    assert parts[0] + "".join(part[overlap:] for part in parts[1:]) == text


def words(count: int, start: int = 0) -> str:
    return " ".join(f"w{n:05d}" for n in range(start, start + count))


def test_a_long_text_goes_through_window_by_window(make_brain: MakeBrain) -> None:
    """Each part gets its share of the words; the parts become one."""
    chat = ScriptedChat(*[f"part {n} " + words(25) for n in range(5)], "all in one")
    brain = make_brain(chat=chat).brain()
    brain.add_talk(words(985))
    assert brain.summarize(100) == "all in one"
    said = [request.messages[0].content for request in chat.requests]
    assert ["fewer than 21 words" in text for text in said] == [True] * 5 + [False]
    assert "fewer than 100 words" in said[-1]
    assert all(1300 < len(text) <= 1480 for text in chat.asked[:5])
    assert " ".join(chat.asked[:5]).split() == ["user:", *words(985).split()]
    assert chat.asked[-1].startswith("part 0 ")


def test_a_summary_ends_in_no_piece_of_a_message(make_brain: MakeBrain) -> None:
    """Where the messages fill a little more than a window, each window holds whole ones."""
    chat = ScriptedChat("The first part.", "The second part.")
    brain = make_brain(chat=chat).brain()
    talk = [f"Ann buys {words(20)} for boat number {n} and nails, too." for n in range(9)]
    brain.add_talk("\n".join(talk))
    assert len("\n".join(talk)) > 1480
    assert brain.summarize(100) == "The first part.\nThe second part."
    lines = [line.strip() for window in chat.asked for line in window.splitlines()]
    assert lines == [f"user: {talk[0]}", *talk[1:]]
    assert min(len(window) for window in chat.asked) > 500
