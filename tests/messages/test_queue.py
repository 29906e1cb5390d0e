"""The queue: in order, each once where wanted, for threads and tasks, and through JSON."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.errors import MessageError
from devmem.messages import AIMessage, Message, MessageQueue


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "not JSON"),
        ('[{"content": "x"}, null, {"content": 5}]', "2 of 3 .* message 1: .* message 2: .*content"),
        ('[{"priority": "high", "message": {"content": "x"}}]', "'high'"),
    ],
)
def test_what_is_no_queue(text: str, words: str) -> None:
    """The error names every element that is wrong; no queue is made that misses some."""
    with pytest.raises(MessageError, match=words):
        MessageQueue.load(text)


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
