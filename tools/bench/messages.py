"""The cost of a short-term memory of 1,000 and of 100,000 messages: adding, and looking up a hundred of them.

The sizes take turns, and the time is this process's own on the CPU: what else runs disturbs both alike, and little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

from devmem.messages import AIMessage, Message, ShortTermMemory, ToolMessage
from tools.bench.rows import JsonFile, Row, report

_SIZES = {"1k": 1_000, "100k": 100_000}
_FOUND = 100
"""Number of messages that a look-up returns, spread over the whole memory, whatever its size."""
_ROUNDS = 7
_CALLS = 10


def command(json_file: JsonFile = None) -> None:
    """Measure a short-term memory: the time of a call when it is small, and when it is large."""
    report(list(run()), json_file)


def run() -> Iterator[Row]:
    """Measure both sizes; each ratio follows its metric."""
    subjects = {case: _Subject(size) for case, size in _SIZES.items()}
    for metric in subjects["1k"].calls:
        times: dict[str, list[float]] = {case: [] for case in subjects}
        for _ in range(_ROUNDS):
            for case, subject in subjects.items():
                times[case].append(_per_call(subject.calls[metric]))
        for case, measured in times.items():
            yield Row(bench="messages", case=case, metric=metric, value=median(measured), unit="ms")
        ratio = median(times["100k"]) / median(times["1k"])
        yield Row(bench="messages", case="100k", metric=f"{metric}_100k_to_1k", value=ratio, unit="ratio")


class _Subject:
    """A memory of one size, and the queries put to it."""

    def __init__(self, size: int) -> None:
        memory, bounded = ShortTermMemory(), ShortTermMemory(max_messages=size)
        messages = [_message(at, size) for at in range(size)]
        for each in (memory, bounded):
            each.add_batch(messages)
        # Half of them are known.
        observed = [*messages[:: size // _FOUND * 2], *(AIMessage(f"news {n}") for n in range(_FOUND // 2))]
        start, stop = (messages[at].created_at for at in (size // 2, size // 2 + _FOUND))
        added = [AIMessage(f"added {n}", cause_by="added") for n in range(2 * _ROUNDS * _CALLS)]
        self.calls: dict[str, Callable[[], object]] = {
            "get_by_action": lambda: memory.get_by_action("rare"),
            "get_by_role": lambda: memory.get_by_role("tool"),
            "get_by_time": lambda: memory.get_by_time(after=start, before=stop),
            "get_newest": lambda: memory.get(_FOUND),
            "get_by_position": lambda: memory.get_by_position(size // 2),
            "find_news": lambda: memory.find_news(observed),
            "add": lambda: memory.add(added.pop()),
            "add_bounded": lambda: bounded.add(added.pop()),
        }


def _message(at: int, size: int) -> Message:
    # Every hundredth part of the memory holds one message of the action and the role that are looked up.
    rare = at % (size // _FOUND) == 0
    made = ToolMessage if rare else AIMessage
    return made(
        f"message number {at}",
        source=f"agent {at % 7}",
        cause_by="rare" if rare else f"action {at % 50}",
        created_at=float(at),
    )


def _per_call(call: Callable[[], object]) -> float:
    """Time a call in ms."""
    started = time.process_time()
    for _ in range(_CALLS):
        call()
    return (time.process_time() - started) * 1000 / _CALLS
