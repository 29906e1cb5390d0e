"""Eight writers of one record: no change that was acknowledged is lost, and the history has every version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Final

import devmem
from devmem.errors import VersionConflictError
from devmem.memory.memory import Memory
from tools.postgres_server import USER, PostgresServer
from tools.torture.children import Child
from tools.torture.results import Plan, Result

_WRITERS: Final = 8
_NOTES: Final = "notes"
Send = Callable[[str], None]
Work = Callable[[Memory, str, int], None]
"""Makes one change of the record of a key; the number is that of the change."""


def run(plan: Plan) -> list[Result]:
    """Write to one record of a file from eight processes at once."""
    return _changes(plan, "", str(plan.folder / "lost.db"))


def run_postgres(plan: Plan) -> list[Result]:
    """Write to one record of a PostgreSQL store from eight processes at once."""
    with closing(PostgresServer()) as server:
        return _changes(plan, "postgres: ", server.url(USER, store=_NOTES))


def _changes(plan: Plan, prefix: str, place: str) -> list[Result]:
    counts = plan.extent(short=5, full=100)
    kinds: Sequence[tuple[str, Work]] = (
        ("update(if_version=)", _increment),
        ("add(key=, if_version=)", _replace_key),
        ("update of other metadata", _set_own),
        ("add(key=), last one wins", _add_key),
    )
    return [_tried(f"{prefix}{name}", place, f"fact {at}", work, counts) for at, (name, work) in enumerate(kinds)]


def _tried(fault: str, place: str, key: str, work: Work, count: int) -> Result:
    result = Result(fault=fault, tried=_WRITERS * count)
    with _opened(place) as memory:
        record = memory.add("0", key=key)
    writers = [Child(_writer(place, key, work, 1 + number * count, count)) for number in range(_WRITERS)]
    done = [line for writer in writers for line in writer.finish()]
    result.acknowledged = len(done)
    if len(done) != result.tried or any(writer.status for writer in writers):
        result.fail("unrecovered", f"{fault}: {len(done)} of {result.tried} changes were acknowledged")
    with _opened(place) as memory:
        _judge(memory, record, work, done, result)
    return result


def _judge(memory: Memory, record: str, work: Work, done: Sequence[str], result: Result) -> None:
    (last,), history = memory.get([record]), memory.history(record)
    if work in (_increment, _replace_key) and (lost := len(done) - int(last.text)):
        result.fail("lost", f"{result.fault}: {lost} of {len(done)} increments", abs(lost))
    if work is _set_own and (missing := set(done) - last.metadata.keys()):
        result.fail("lost", f"{result.fault}: {len(missing)} values", len(missing))
    if work is _add_key:
        kept = Counter(version.item.text for version in history)
        for text in set(done) - kept.keys():
            result.fail("lost", f"{result.fault}: the history has no version {text!r}")
        result.doubled += sum(number - 1 for number in kept.values())
    for older, newer in pairwise(history):
        if newer.replaced != older.item.version:
            result.fail("wrong", f"{result.fault}: {newer!r} does not name {older!r} as what it replaced")
    if len(history) != len(done) + 1:
        result.fail("lost", f"{result.fault}: {len(history)} versions after {len(done)} changes")


def _writer(place: str, key: str, work: Work, first: int, count: int) -> Callable[[Send], None]:
    def write(send: Send) -> None:
        with _opened(place) as memory:
            for number in range(count):
                work(memory, key, first + number)
                send(str(first + number))

    return write


def _opened(place: str) -> Memory:
    return devmem.open(place, embedding=None)


def _increment(memory: Memory, key: str, _number: int) -> None:
    """Read a counter and write it back, one higher, until nobody was faster."""
    while True:
        seen = memory.list(1, where={"metadata.key": key})[0]
        try:
            memory.update(seen.id, str(int(seen.text) + 1), if_version=seen.version)
        except VersionConflictError:
            continue
        return


def _replace_key(memory: Memory, key: str, _number: int) -> None:
    while True:
        seen = memory.list(1, where={"metadata.key": key})[0]
        try:
            memory.add(str(int(seen.text) + 1), key=key, if_version=seen.version)
        except VersionConflictError:
            continue
        return


def _set_own(memory: Memory, key: str, number: int) -> None:
    """Set a value that no other change sets."""
    memory.update(memory.list(1, where={"metadata.key": key})[0].id, metadata={str(number): True})


def _add_key(memory: Memory, key: str, number: int) -> None:
    memory.add(str(number), key=key)
