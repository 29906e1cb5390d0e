"""Faults of agentUniverse's memories that must not occur here; the numbers are those of our list.

=====  =================================================================  =========================================
fault  there                                                              test
=====  =================================================================  =========================================
A1     a deletion by agent or trace deletes the session, or everything    `test_a1...`
A2     a deletion without ids deletes everything                          `test_a2...`
A3     messages share one default id, and one of them is kept             `test_a3...`
A4     a time in the metadata cannot be stored                            `test_a4...`
A5     the newest are asked for, the oldest come                          `test_a5...`
A6     what is written under one session is read under another            `test_a6...`
A7     answers that are None, numbers, or hold "output" are lost          `tests/recording/test_calls.py`
A8     the time is the worker's, and four workers change the order        `test_a8...`
A9     the field of the output is the caller's, not the callee's          `test_a9...`
A10    a full queue raises in the agent's call; the rest is lost at exit  `test_a10...`, `tests/recording`
A11    a record is stored twice, or a race loses its batch                `test_a11...`
A12    one message over the budget drops all of them                      `tests/search`, `test_a12...`
A13    a plain message has no sentence                                    `test_a13...`
A14    a filter by kind fails                                             `test_a14...`
A15    messages of one batch share their metadata                         `test_a15...`
A16    k arbitrary messages are sorted, instead of the newest             `test_a5...`
A17    further arguments are lost; what was written is not read at once   `test_a17...`
A18    a summary is looked for, an ordinary message comes                 `test_a14...`
A19    an async wrapper returns a coroutine; the chain of callers breaks  `test_a19...`
A20    adding replaces what was there; odd numbers of messages fail       `test_a17...`
A21    a whole session is read for its last messages                      `test_a21...`
A22    a text becomes one message for each of its characters              `test_a22...`
A23    two ways to read, two orders; failures are swallowed               `test_a5...`, `test_a23...`
A24    what must exist once is created twice by two threads               `test_a24...`
=====  =================================================================  =========================================
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

import devmem
from devmem import Filter, Scope, record_agent, record_knowledge, record_tool
from devmem.errors import FilterError
from devmem.recording import (
    Interaction,
    InteractionKind,
    InteractionRecorder,
    Participant,
    ParticipantType,
    current_trace,
)
from devmem.storage import Collection
from devmem.stores import MemoryQuery, StoreSetup
from devmem_stores.conversation import ConversationConfig, ConversationMemory
from devmem_stores.conversation.items import View, sentence

ANN = Participant("ann", ParticipantType.USER)
BOT = Participant("bot", ParticipantType.AGENT)


def make_store(folder: Path) -> ConversationMemory:
    config = ConversationConfig(memory_path="global.db")
    return ConversationMemory(StoreSetup(name="global", store_type="conversation", config=config, base_dir=folder))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationMemory]:
    memory = make_store(tmp_path)
    memory.load()
    yield memory
    memory.close()


@pytest.fixture
def recorder(store: ConversationMemory, tmp_path: Path) -> Iterator[InteractionRecorder]:
    with InteractionRecorder(store, tmp_path / "journals") as recorder:
        yield recorder


def record(number: int, conversation: str = "c", trace: str = "t", **more: object) -> Interaction:
    fields = {
        "id": f"{conversation}-{trace}-{number}",
        "source": ANN,
        "target": BOT,
        "kind": InteractionKind.INPUT,
        "content": f"message {number}",
        "event_time": 1_700_000_000.0 + number,
        **more,
    }
    return Interaction(conversation=conversation, trace=trace, **fields)  # type: ignore[arg-type]


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


def test_a2_a_deletion_of_nothing_in_particular_deletes_nothing(store: ConversationMemory) -> None:
    store.record([record(n) for n in range(3)])
    assert store.delete(ids=[]) == 0
    for where in (Filter(), Filter(scope=Scope(agent=None))):
        with pytest.raises(FilterError, match="clear"):
            store.delete(where=where)
    with pytest.raises(FilterError):
        store.delete()
    assert store.count() == 3


def test_a3_every_record_has_an_id_of_its_own_also_in_a_forked_child(recorder: InteractionRecorder) -> None:
    def ids() -> list[str]:
        found = []
        with recorder.trace():
            for _ in range(100):
                with record_tool("t", "x"):
                    context = current_trace()
                    assert context is not None
                    found.append(str(context.parent_id))
        return found

    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, "\n".join(ids()).encode())
        os._exit(0)
    own = ids()
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        theirs = pipe.read().split("\n")
    assert len({*own, *theirs}) == 200


def test_a4_a_time_among_the_arguments_is_recorded(store: ConversationMemory, recorder: InteractionRecorder) -> None:
    with recorder.trace(trace="t"), record_tool("t", params={"when": datetime(2024, 5, 1, tzinfo=UTC)}):
        pass
    assert recorder.flush()
    assert store.trace("t")[0].params == {"when": "2024-05-01T00:00:00+00:00"}


def test_a5_the_newest_come_and_in_the_order_of_their_times(store: ConversationMemory) -> None:
    """Stored in another order than they happened in; A16 and A23 are the same question to other storages."""
    for number in (7, 2, 9, 0, 5, 1, 8, 3, 6, 4):
        store.record([record(number)])
    everything = View(counterparts=frozenset(ParticipantType))
    assert contents(store.view(everything, 3)) == ["message 7", "message 8", "message 9"]
    assert contents(store.log("c")) == [f"message {number}" for number in range(10)]
    report = store.search(MemoryQuery(text="message", limit=3))
    assert [hit.item.content_summary for hit in report] == ["message 7", "message 8", "message 9"]


def test_a6_the_ids_of_a_trace_are_those_that_are_stored(
    store: ConversationMemory, recorder: InteractionRecorder
) -> None:
    with recorder.trace(conversation="the app's") as trace, record_agent("bot", "q") as call:
        call.output("a")
    with recorder.trace() as unnamed, record_agent("bot", "q2"):
        pass
    assert recorder.flush()
    assert contents(store.log("the app's")) == ["q", "a"]
    assert contents(store.trace(trace.trace)) == ["q", "a"]
    assert contents(store.log(unnamed.conversation)) == ["q2", "null"]


def test_a8_the_time_is_that_of_the_call_whenever_the_store_gets_it(store: ConversationMemory, tmp_path: Path) -> None:
    seconds = iter(range(100, 200))
    recorder = InteractionRecorder(store, tmp_path / "j", clock=lambda: float(next(seconds)))
    with recorder.trace(conversation="c"):
        for number in range(3):
            with record_tool("t", f"n{number}"):
                pass
    assert recorder.close()
    assert [one.event_time for one in store.log("c")] == [100.0, 101.0, 102.0, 103.0, 104.0, 105.0]


def test_a9_the_field_of_the_answer_is_the_callees(store: ConversationMemory, recorder: InteractionRecorder) -> None:
    @record_agent("inner", input_field="q", output_field="answer")
    def inner(q: str) -> dict[str, str]:
        return {"answer": "inside", "result": "not this"}

    @record_agent("outer", input_field="q", output_field="result")
    def outer(q: str) -> dict[str, str]:
        return {"answer": "not this", "result": inner(q)["answer"]}

    with recorder.trace(conversation="c", user="ann"):
        outer("why?")
    assert recorder.flush()
    assert contents(store.log("c")) == ["why?", "why?", "inside", "inside"]


def test_a10_a_store_that_is_overwhelmed_raises_nothing_in_a_call(tmp_path: Path) -> None:
    released = threading.Event()

    class Stuck:
        def record(self, interactions: Sequence[Interaction]) -> None:
            released.wait()

    recorder = InteractionRecorder(Stuck(), tmp_path / "waiting.db")
    with recorder.trace():
        for number in range(3000):
            with record_tool("t", number):
                pass
    assert recorder.status().recorded == 6000
    released.set()
    assert recorder.close()


def test_a11_records_that_arrive_twice_or_in_a_race_are_stored_once(store: ConversationMemory) -> None:
    batches = [[record(number) for number in range(start, start + 10)] for start in (0, 5, 0, 8)]
    threads = [threading.Thread(target=store.record, args=(batch,)) for batch in batches * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


def test_a14_summaries_are_known_by_their_kind(store: ConversationMemory) -> None:
    store.record([record(1), record(2, kind=InteractionKind.SUMMARY, content="so far"), record(3)])
    assert contents([one for one in store.log("c") if one.kind is InteractionKind.SUMMARY]) == ["so far"]


def test_a15_records_of_one_batch_keep_their_own_sides_and_arguments(store: ConversationMemory) -> None:
    people = [Participant(f"p{number}", ParticipantType.USER) for number in range(3)]
    store.record([record(n, source=one, params={"n": n}) for n, one in enumerate(people)])
    assert [(one.source, one.params) for one in store.log("c")] == [(p, {"n": n}) for n, p in enumerate(people)]


def test_a17_what_is_added_is_there_at_once_with_all_of_its_parts(store: ConversationMemory) -> None:
    """A20: adding adds, and an odd number of records is as good as an even one."""
    store.record([])
    for number in range(3):
        one = record(number, extras={"agent": {"step": number}}, params={"x": [1, None]}, parent_id="p", pair_id="q")
        store.record([one])
        assert store.log("c")[-1] == one
    assert len(store.log("c")) == 3


def test_a19_async_calls_are_awaited_and_their_callers_stay_in_order(
    store: ConversationMemory, recorder: InteractionRecorder
) -> None:
    @record_knowledge("library", input_field="q")
    async def look_up(q: str) -> str:
        await asyncio.sleep(0)
        return q.upper()

    @record_agent("bot", input_field="q")
    async def bot(q: str) -> str:
        return await look_up(q) + await look_up(q)

    with recorder.trace(conversation="c", user="ann"):
        assert asyncio.run(bot("x")) == "XX"
        with record_tool("after", "y"):
            pass
    assert recorder.flush()
    callers = {one.target.name: one.source.name for one in store.log("c") if one.kind is InteractionKind.INPUT}
    assert callers == {"bot": "ann", "library": "bot", "after": "ann"}


def test_a21_the_last_records_are_read_without_the_whole_conversation(
    store: ConversationMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.record([record(number) for number in range(400)])
    read: list[int] = []
    recent: Callable[..., list[devmem.MemoryItem]] = store.collection.recent

    def counted(self: Collection, *args: object, **kwargs: object) -> list[devmem.MemoryItem]:
        items = recent(*args, **kwargs)
        read.append(len(items))
        return items

    monkeypatch.setattr(type(store.collection), "recent", counted)
    assert len(store.view(View(), 5)) == 5
    assert store.view(View(counterparts=["user", "agent"]), 5) == store.view(View(), 5)
    assert store.view("nobody", 5) == []
    with pytest.raises(ValueError, match="'robot'"):
        View(counterparts=["robot"])
    assert 0 < sum(read) < 100


def test_a22_a_text_is_one_message(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db") as memory:
        memory.add("Hello there")
        assert [item.text for item in memory.list()] == ["Hello there"]


def test_a23_a_failure_of_the_store_reaches_whoever_reads(tmp_path: Path) -> None:
    (tmp_path / "global.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    broken = make_store(tmp_path)
    with pytest.raises(devmem.DevmemError, match=r"global\.db"):
        broken.log("c")
    broken.close()


def test_a24_threads_that_begin_together_share_one_recorder(store: ConversationMemory, tmp_path: Path) -> None:
    recorder, start = InteractionRecorder(store, tmp_path / "j"), threading.Barrier(8)

    def call(number: int) -> None:
        start.wait()
        with recorder.trace(conversation="c"), record_tool("t", number):
            pass

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.close()
    assert len(store.log("c")) == 16
