"""A file that may not grow any further, at many sizes: what was acknowledged stays, and with room again it goes on.

What a `forget` there refused stays too, unless the error says that it is decided; the store opens all the same.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import devmem
from devmem import DevmemError, Memory
from tools.torture.children import Child
from tools.torture.judge import check_items, check_searches
from tools.torture.results import Plan, Result
from tools.torture.stores import KINDS, opened, payload, prepare

_MOST_WRITES = 400


def run(plan: Plan) -> list[Result]:
    """Limit the size of every file of a store, for every kind of store."""
    return [*(_limit_all(plan, kind) for kind in KINDS), _forget_all(plan)]


def _limit_all(plan: Plan, kind: str) -> Result:
    result, chance = Result(fault=f"full disk:{kind}"), plan.random("full disk", kind)
    for trial in range(plan.extent(short=2, full=20)):
        folder = prepare(plan.folder / f"disk-{kind}-{trial}", kind)
        limit = chance.randrange(100_000, 1_500_000)
        where = f"seed {plan.seed}, {kind}, files of at most {limit} bytes"
        with Child(_writer(folder, limit)) as child:
            said = child.finish()
        result.tried += 1
        acknowledged = {line for line in said if line.startswith("w")}
        result.acknowledged += len(acknowledged)
        if child.status or not {"full", "fine"} <= set(said):
            result.fail("unrecovered", f"{where}: {said[-1:]} and exit code {child.status}")
        with opened(folder) as store:
            check_items(store, acknowledged, result, where)
            check_searches(store, kind, acknowledged, chance, result)
    return result


def _writer(folder: Path, limit: int) -> Callable[[Callable[[str], None]], None]:
    def write(send: Callable[[str], None]) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with opened(folder) as store:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            for number in range(_MOST_WRITES):
                outcome_or_error = _stored(lambda number=number: store.update(payload(f"w1x{number}")))  # type: ignore[misc]
                if outcome_or_error is not None:
                    send("full")
                    break
                send(f"w1x{number}")
            else:
                send("full")
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            store.update(payload("w2x0"))
            send("w2x0")
            send("fine")

    return write


def _stored(write: Callable[[], object]) -> DevmemError | None:
    """Write, and return devmem's own error; any other ends the process."""
    try:
        write()
    except DevmemError as error:
        return error
    return None


_FORGOTTEN: Final = 10
"""Number of items that are forgotten one after the other where there is no room."""


def _forget_all(plan: Plan) -> Result:
    result, chance = Result(fault="full disk:forget"), plan.random("full disk", "forget")
    for trial in range(plan.extent(short=3, full=60)):
        path, limit = plan.folder / f"forget-{trial}.db", chance.randrange(300_000, 1_500_000)
        where = f"seed {plan.seed}, files of at most {limit} bytes"
        with Child(partial(_forgets_where_full, path, limit)) as child:
            said = [line.split() for line in child.finish()]
        result.tried += 1
        if child.status:
            result.fail("unrecovered", f"{where}: it ended with {child.status}")
        stored = {word for kind, word in said if kind == "stored"}
        gone = {word for kind, word in said if kind == "forgotten"}
        decided = {word for kind, word in said if kind == "decided"}
        result.acknowledged += len(stored)
        # While there is still no room, and then with room.
        with Child(partial(_opens, path, limit)) as child:
            found = set(child.finish())
        if child.status:
            result.fail("unrecovered", f"{where}: it cannot be opened there")
        _compare(found, stored - gone, decided, result, f"{where}, opened there")
        with Child(partial(_opens, path, None)) as child:
            _compare(set(child.finish()), stored - gone - decided, set(), result, f"{where}, with room again")
    return result


def _compare(found: set[str], wanted: set[str], may_be_gone: set[str], result: Result, where: str) -> None:
    if missing := wanted - found - may_be_gone:
        result.fail("lost", f"{where}: {sorted(missing)[:3]} of {len(wanted)}", len(missing))
    if more := found - wanted:
        result.fail("leaked", f"{where}: {sorted(more)[:3]} were forgotten and are there", len(more))


def _limit(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _forgets_where_full(path: Path, limit: int, send: Callable[[str], None]) -> None:
    with devmem.open(path, embedding=None) as memory:
        _limit(limit)
        words = _fill(memory, send)
        for word in words[-_FORGOTTEN:]:
            try:
                memory.forget(word)
            except DevmemError as error:
                send(f"{'decided' if 'stays decided' in str(error) else 'refused'} {word}")
            else:
                send(f"forgotten {word}")


def _fill(memory: Memory, send: Callable[[str], None]) -> list[str]:
    """Add items until one does not fit any more; return the ids of the others."""
    words: list[str] = []
    for number in range(100_000):
        word = f"w{number}x7"
        try:
            memory.add(f"{word} " + "fills the disk " * 200, id=word)
        except DevmemError:
            return words
        words.append(word)
        send(f"stored {word}")
    raise AssertionError("the file is not full yet")


def _opens(path: Path, limit: int | None, send: Callable[[str], None]) -> None:
    if limit is not None:
        _limit(limit)
    with devmem.open(path, embedding=None) as memory:
        texts = [record.text for record in memory.list(100_000)]
        memory.search("fills", limit=3)
        for text in texts:
            send(text.split()[0])
