"""What a short-term memory costs at 1,000 and at 100,000 messages: adding, and looking up a hundred of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from statistics import median

from devmem import AIMessage, Message, ShortTermMemory, ToolMessage
from tools.bench.rows import Row

_SIZES = {"1k": 1_000, "100k": 100_000}
_FOUND = 100
"""Messages that a look-up gives, spread over the whole memory, whatever its size."""
_ROUNDS = 7
_CALLS = 300


def run() -> Iterator[Row]:
    """Measure both sizes; the ratios come last."""
    measured = {case: dict(_measure(size)) for case, size in _SIZES.items()}
    for case, metrics in measured.items():
        for metric, value in metrics.items():
            yield Row(bench="messages", case=case, metric=metric, value=value, unit="ms")
    for metric, value in measured["100k"].items():
        ratio = value / measured["1k"][metric]
        yield Row(bench="messages", case="100k", metric=f"{metric}_100k_to_1k", value=ratio, unit="ratio")


def _message(at: int, size: int) -> Message:
    # Every hundredth part of the memory holds one message of the action and the role that are looked up.
    rare = at % (size // _FOUND) == 0
    made = ToolMessage if rare else AIMessage
    return made(f"message number {at}", source=f"agent {at % 7}", cause_by="rare" if rare else f"action {at % 50}")


def _measure(size: int) -> Iterator[tuple[str, float]]:
    memory, bounded = ShortTermMemory(), ShortTermMemory(max_messages=size)
    messages = [_message(at, size) for at in range(size)]
    for each in (memory, bounded):
        each.add_batch(messages)
    observed = [*messages[:: size // _FOUND * 2], *(AIMessage(f"news {n}") for n in range(_FOUND // 2))]
    middle = messages[size // 2].created_at
    calls: dict[str, Callable[[], object]] = {
        "get_by_action": lambda: memory.get_by_action("rare"),
        "get_by_role": lambda: memory.get_by_role("tool"),
        "get_by_time": lambda: memory.get_by_time(after=middle, before=messages[size // 2 + _FOUND].created_at),
        "get_newest": lambda: memory.get(_FOUND),
        "get_by_position": lambda: memory.get_by_position(size // 2),
        "find_news": lambda: memory.find_news(observed),
    }
    for metric, call in calls.items():
        yield metric, _per_call(call)
    for metric, filled in (("add", memory), ("add_bounded", bounded)):
        yield metric, _per_message(filled.add)


def _per_call(call: Callable[[], object]) -> float:
    def repeat() -> None:
        for _ in range(_CALLS):
            call()

    return _timed(repeat for _ in range(_ROUNDS)) / _CALLS


def _per_message(add: Callable[[Message], object]) -> float:
    batches = [[AIMessage(f"added {n}", cause_by="added") for n in range(_CALLS)] for _ in range(_ROUNDS)]

    def adding(batch: list[Message]) -> Callable[[], None]:
        def work() -> None:
            for message in batch:
                add(message)

        return work

    return _timed(adding([*batch]) for batch in batches) / _CALLS


def _timed(works: Iterable[Callable[[], object]]) -> float:
    """Give the median time of the works in ms."""
    times = []
    gc.collect()
    for work in works:
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return median(times)
