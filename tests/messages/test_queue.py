"""The queue: in order, each once where wanted, for threads and tasks, and through JSON."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import MessageError
from devmem.messages import AIMessage, Message, MessageQueue
from tests.strategies import messages

_FEW_IDS = st.sampled_from(["1", "2", "3"])


def contents(found: list[Message]) -> list[str]:
    return [message.content for message in found]


def test_first_in_first_out() -> None:
    """As MetaGPT's `test_message_queue`, and what it leaves open."""
    queue = MessageQueue()
    assert queue.empty()
    assert queue.pop() is None
    assert queue.pop_all() == []
    for content in "abc":
        assert queue.push(AIMessage(content))
    assert (queue.count(), len(queue), queue.empty(), bool(queue)) == (3, 3, False, True)
    first = queue.pop()
    assert first is not None
    assert first.content == "a"
    assert contents(queue.pop_all()) == ["b", "c"]
    assert queue.empty()


@given(priorities=st.lists(st.integers(-2, 2), max_size=20))
def test_the_lowest_number_comes_first_and_ties_keep_their_order(priorities: list[int]) -> None:
    queue = MessageQueue()
    for at, priority in enumerate(priorities):
        queue.push(Message(str(at)), priority=priority)
    expected = [str(at) for at, _ in sorted(enumerate(priorities), key=lambda pair: pair[1])]
    assert contents(MessageQueue.load(queue.dump()).pop_all()) == expected
    popped = [queue.pop() for _ in priorities]
    assert contents([message for message in popped if message is not None]) == expected


def test_the_same_message_waits_once_unless_all_are_wanted(caplog: pytest.LogCaptureFixture) -> None:
    by_id, by_content = MessageQueue(), MessageQueue(dedupe="content")
    one, twin = Message("x", id="1"), Message("x", id="2")
    assert [by_id.push(one), by_id.push(one), by_id.push(twin)] == [True, False, True]
    assert [by_content.push(one), by_content.push(twin), by_content.push(Message("y"))] == [True, False, True]
    assert by_id.pop() is one
    assert by_id.push(one)
    by_content.pop_all()
    assert by_content.push(twin)
    both = MessageQueue(dedupe=None)
    assert [both.push(one), both.push(one)] == [True, True]
    assert len(MessageQueue.load(both.dump(), dedupe=None)) == 2
    assert len(MessageQueue.load(both.dump())) == 1
    assert "1 message(s) stand twice" in caplog.text
    with pytest.raises(MessageError, match="dedupe"):
        MessageQueue(dedupe="words")  # type: ignore[arg-type]


def test_only_messages_are_queued() -> None:
    """MetaGPT queues a None for an element that it cannot read, at which `pop_all` then stops."""
    queue = MessageQueue()
    for wrong in (None, "text", {"content": "x"}):
        with pytest.raises(MessageError, match="takes messages"):
            queue.push(wrong)  # type: ignore[arg-type]
    assert queue.empty()


@given(waiting=st.lists(st.tuples(messages(_FEW_IDS), st.integers(0, 3)), max_size=5))
def test_any_queue_through_json(waiting: list[tuple[Message, int]]) -> None:
    queue = MessageQueue(dedupe=None)
    for message, priority in waiting:
        queue.push(message, priority=priority)
    text = queue.dump()
    loaded, kept = MessageQueue.load(text, dedupe=None).pop_all(), queue.pop_all()
    assert len(loaded) == len(kept) == len(waiting)
    assert all(one.identical(other) for one, other in zip(loaded, kept, strict=True))


def test_the_queue_that_metagpt_wrote_is_read() -> None:
    """A list of JSON texts."""
    text = json.dumps([json.dumps({"id": "1", "content": "x", "role": "user"}), json.dumps({"content": "y"})])
    assert contents(MessageQueue.load(text).pop_all()) == ["x", "y"]
    assert MessageQueue().dump() == "[]"
    assert MessageQueue.load("[]").empty()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not JSON"),
        ('{"a": 1}', "not a list"),
        ('[{"content": "x"}, null, {"content": 5}]', "2 of 3 .* message 1: .* message 2: .*content"),
        ('[{"priority": "high", "message": {"content": "x"}}]', "'high'"),
        ('[{"priority": 1}]', "message 0"),
    ],
)
def test_what_is_no_queue(text: str, words: str) -> None:
    """The error names every element that is wrong; no queue is made that misses some."""
    with pytest.raises(MessageError, match=words):
        MessageQueue.load(text)


def test_dumping_takes_nothing_and_changes_no_order() -> None:
    """MetaGPT empties the queue to write it, so that what is pushed meanwhile comes first."""
    queue = MessageQueue()
    start = threading.Barrier(3)

    def push(name: str) -> None:
        start.wait()
        for n in range(200):
            queue.push(Message(str(n), source=name))

    def dump() -> list[int]:
        start.wait()
        return [len(json.loads(queue.dump())) for _ in range(20)]

    with ThreadPoolExecutor(3) as pool:
        pushing = [pool.submit(push, name) for name in ("a", "b")]
        sizes = pool.submit(dump).result()
        for each in pushing:
            each.result()
    assert sizes == sorted(sizes)
    taken = queue.pop_all()
    for name in ("a", "b"):
        assert [message.content for message in taken if message.source == name] == [str(n) for n in range(200)]


def test_many_threads() -> None:
    """Every message is taken once."""
    queue, writers, each = MessageQueue(), 4, 200

    def write(thread: int) -> None:
        for n in range(each):
            queue.push(Message(f"{thread} {n}"))

    def read(_: int) -> list[str]:
        taken = []
        for _ in range(each):
            message = queue.wait(timeout=30)
            assert message is not None
            taken.append(message.content)
        return taken

    with ThreadPoolExecutor(2 * writers) as pool:
        reading = [pool.submit(read, n) for n in range(writers)]
        list(pool.map(write, range(writers)))
        taken = [content for done in reading for content in done.result()]
    assert sorted(taken) == sorted(f"{thread} {n}" for thread in range(writers) for n in range(each))
    assert queue.empty()


def test_a_thread_that_waits_in_vain() -> None:
    assert MessageQueue().wait(timeout=0) is None


def test_tasks_wait_for_threads_and_tasks() -> None:
    """Both kinds of reader, and both kinds of writer, on one queue."""
    queue, each = MessageQueue(), 100

    async def read() -> list[str]:
        return [(await queue.await_next()).content for _ in range(each)]

    async def write() -> None:
        for n in range(each):
            queue.push(Message(f"task {n}"))
            await asyncio.sleep(0)

    async def work() -> list[str]:
        def push() -> None:
            for n in range(each):
                queue.push(Message(f"thread {n}"))

        tasks = [asyncio.create_task(read()) for _ in range(2)]
        await asyncio.gather(write(), asyncio.to_thread(push))
        async with asyncio.timeout(60):
            return [content for part in await asyncio.gather(*tasks) for content in part]

    taken = asyncio.run(work())
    assert sorted(taken) == sorted(f"{kind} {n}" for kind in ("task", "thread") for n in range(each))


def test_a_cancelled_reader_takes_nothing() -> None:
    """Not even when the message came before the cancellation reached it: the next reader gets it."""

    async def work() -> str:
        queue = MessageQueue()
        first = asyncio.create_task(queue.await_next())
        second = asyncio.create_task(queue.await_next())
        await asyncio.sleep(0)
        queue.push(Message("for one of them"))
        first.cancel()
        async with asyncio.timeout(60):
            message = await second
        assert first.cancelled()
        assert queue.empty()
        return message.content

    assert asyncio.run(work()) == "for one of them"


def test_a_reader_whose_loop_is_gone_wakes_nobody() -> None:
    queue = MessageQueue()

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await queue.await_next()

    asyncio.run(give_up())
    loop = asyncio.new_event_loop()
    abandoned = loop.create_task(queue.await_next())
    loop.call_soon(loop.stop)
    loop.run_forever()
    abandoned.cancel()
    loop.close()
    assert queue.push(Message("x"))
    assert queue.count() == 1
