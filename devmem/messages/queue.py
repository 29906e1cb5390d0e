"""A queue of messages between agents."""

from __future__ import annotations

import asyncio
import heapq
import logging
import threading
from collections import deque
from typing import Final, Literal, NamedTuple, Self

from pydantic import JsonValue

from devmem.errors import MessageError
from devmem.model.message import Message
from devmem.model.message_json import dump_message, json_text, load_messages, read_json

Dedupe = Literal["id", "content"]
"""Identity of a message: its id, or its content (`Message.content_hash`)."""

_LOG: Final = logging.getLogger(__name__)
_PRIORITY: Final = "priority"


class _Waiting(NamedTuple):
    priority: int
    number: int
    message: Message


class MessageQueue:
    """Messages that wait for their reader: lowest priority number first, and first in, first out within one.

    Any number of threads and tasks may use it at once.
    """

    def __init__(self, *, dedupe: Dedupe | None = "id") -> None:
        """Make an empty queue.

        Args:
            dedupe: what keeps a message from being queued while the same one waits already; None queues all.

        Raises:
            MessageError: there is no such way to tell messages apart.
        """
        if dedupe not in (None, "id", "content"):
            raise MessageError(f"`dedupe` is `id`, `content` or None, not {dedupe!r}")
        self._dedupe = dedupe
        self._heap: list[_Waiting] = []
        self._keys: set[str] = set()
        self._pushed = 0
        self._arrived = threading.Condition()
        self._readers: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    def push(self, message: Message, *, priority: int = 0) -> bool:
        """Append a message; return whether it was queued, which `dedupe` may prevent.

        Raises:
            MessageError: it is not a message.
        """
        if not isinstance(message, Message):
            raise MessageError(f"a queue takes messages, not {type(message).__name__}")
        key = self._key(message)
        with self._arrived:
            if key is not None and key in self._keys:
                return False
            if key is not None:
                self._keys.add(key)
            heapq.heappush(self._heap, _Waiting(priority, self._pushed, message))
            self._pushed += 1
            self._arrived.notify()
            self._wake_a_task()
        return True

    def pop(self) -> Message | None:
        """Take the next message; None when there is none."""
        with self._arrived:
            if not self._heap:
                return None
            message = heapq.heappop(self._heap).message
            if (key := self._key(message)) is not None:
                self._keys.discard(key)
            return message

    def pop_all(self) -> list[Message]:
        """Take every message that waits, in order."""
        with self._arrived:
            taken = [waiting.message for waiting in sorted(self._heap)]
            self._heap.clear()
            self._keys.clear()
            return taken

    def wait(self, timeout: float | None = None) -> Message | None:
        """Take the next message, waiting for it; None when `timeout` seconds passed without one.

        It blocks the thread; tasks use `await_next`.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: bool(self._heap), timeout)
            return self.pop()

    async def await_next(self) -> Message:
        """Take the next message, waiting for it without blocking the event loop.

        A cancelled task takes nothing; `asyncio.timeout` bounds the wait.
        """
        while True:
            with self._arrived:
                if (message := self.pop()) is not None:
                    return message
                loop = asyncio.get_running_loop()
                reader = (loop, loop.create_future())
                self._readers.append(reader)
            try:
                await reader[1]
            except asyncio.CancelledError:
                self._leave(reader)
                raise

    def empty(self) -> bool:
        """Whether no message waits."""
        return not self._heap

    def count(self) -> int:
        """Count the messages that wait."""
        return len(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __bool__(self) -> bool:
        """Return True: an empty queue is not a missing one."""
        return True

    def dump(self) -> str:
        """Return what waits as JSON, in order; nothing leaves the queue.

        Raises:
            MessageError: a message has no JSON form.
        """
        with self._arrived:
            waiting = sorted(self._heap)
        return json_text([_form(each) for each in waiting])

    @classmethod
    def load(cls, data: str | bytes, *, dedupe: Dedupe | None = "id") -> Self:
        """Return the queue that `dump` wrote, or MetaGPT's queue; what stands twice in it is logged.

        Raises:
            MessageError: it is not JSON, or some elements are not messages; the error names each.
        """
        raw = read_json(data)
        elements = raw if isinstance(raw, list) else []
        wrapped = [
            each if isinstance(each, dict) and _PRIORITY in each else {_PRIORITY: 0, "message": each}
            for each in elements
        ]
        messages = load_messages([each.get("message") for each in wrapped] if isinstance(raw, list) else raw)
        if wrong := [each[_PRIORITY] for each in wrapped if not isinstance(each[_PRIORITY], int)]:
            raise MessageError(f"a priority is a whole number, not {wrong[0]!r}")
        queue, again = cls(dedupe=dedupe), 0
        for each, message in zip(wrapped, messages, strict=True):
            again += not queue.push(message, priority=each[_PRIORITY])
        if again:
            _LOG.warning("%d message(s) stand twice in the loaded queue; each waits once", again)
        return queue

    def _key(self, message: Message) -> str | None:
        if self._dedupe is None:
            return None
        return message.id if self._dedupe == "id" else message.content_hash()

    def _wake_a_task(self) -> None:
        """Wake the task that has waited longest; called with the lock held."""
        while self._readers:
            loop, future = self._readers.popleft()
            try:
                loop.call_soon_threadsafe(_done, future)
            except RuntimeError:
                # Its event loop was closed: nobody waits there any more.
                continue
            return

    def _leave(self, reader: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]) -> None:
        """Stop waiting; a task that was woken but takes no message wakes the next one."""
        with self._arrived:
            if reader in self._readers:
                self._readers.remove(reader)
            elif self._heap:
                self._wake_a_task()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _form(waiting: _Waiting) -> JsonValue:
    form = dump_message(waiting.message)
    return form if waiting.priority == 0 else {_PRIORITY: waiting.priority, "message": form}
