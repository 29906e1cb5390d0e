"""SIGKILL in the middle of one `add` of a long list, beside a reader: all of it is there, or nothing, at any time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Final

import devmem
from devmem import Memory
from devmem.testing import HashEmbedder
from tools.postgres_server import PostgresServer
from tools.torture.children import EXIT_FAILED, Child
from tools.torture.faults.statements import Trace, dying, traced, traced_postgres
from tools.torture.results import Plan, Result

_LONG: Final = 1_500
"""Number of texts of a list: more than are embedded, and than are inserted by one statement, at a time."""
_MODEL: Final = HashEmbedder(dimension=16)

Send = Callable[[str], None]


def run(plan: Plan) -> list[Result]:
    """Kill processes that add lists to a file."""
    place = str(plan.folder / "lists.db")
    return [_torture(plan, "long_lists", place, traced, plan.extent(short=3, full=20))]


def run_postgres(plan: Plan) -> list[Result]:
    """Kill processes that add lists to a PostgreSQL store."""
    with closing(PostgresServer()) as server:
        place = server.url(store="lists")
        return [_torture(plan, "postgres_long_lists", place, traced_postgres, plan.extent(short=2, full=8))]


def _torture(plan: Plan, fault: str, place: str, trace: Trace, kills: int) -> Result:
    result, chance = Result(fault=fault), plan.random(fault)
    with _opened(place):
        pass
    statements = _count(place, trace)
    lists = 1
    with Child(partial(_read, place)) as reader:
        for kill in range(kills):
            where = f"seed {plan.seed}, kill {kill} of {statements} statements"
            # One more than there are: killed after it was acknowledged.
            with Child(partial(_add, place, trace, f"list {kill}", chance.randrange(statements + 1))) as child:
                acknowledged = len(child.finish())
            result.tried += 1
            result.acknowledged += acknowledged * _LONG
            if child.status == EXIT_FAILED:
                result.fail("unrecovered", f"{where}: it failed")
            with _opened(place) as memory:
                found, rest = divmod(len(memory), _LONG)
            if rest or found not in (lists, lists + 1):
                result.fail("wrong", f"{where}: {rest} texts of a part of a list are there, and {found} lists")
            if found < lists + acknowledged:
                result.fail("lost", f"{where}: {found} lists are there of {lists + acknowledged}")
            lists = found
        for line in reader.kill():
            result.fail("wrong", f"seed {plan.seed}: a reader saw {line}")
        if reader.status == EXIT_FAILED:
            result.fail("unrecovered", f"seed {plan.seed}: the reader failed")
    return result


def _opened(place: str) -> Memory:
    return devmem.open(place, embedding=_MODEL)


def _texts(name: str) -> list[str]:
    return [f"note {number} of {name}" for number in range(_LONG)]


def _count(place: str, trace: Trace) -> int:
    """Add a list; return the number of statements that it takes."""
    counted: list[str] = []

    def work(send: Send) -> None:
        with trace(counted.append), _opened(place) as memory:
            opening = len(counted)
            memory.add(_texts("the first list"))
            send(str(len(counted) - opening))

    with Child(work) as child:
        (number,) = child.finish()
    return int(number)


def _add(place: str, trace: Trace, name: str, at: int, send: Send) -> None:
    with dying(trace) as die_at, _opened(place) as memory:
        die_at(at)
        memory.add(_texts(name))
        send("added")


def _read(place: str, send: Send) -> None:
    """Count until killed; report a number that no whole lists have."""
    with _opened(place) as memory:
        while True:
            for count in (len(memory), len(memory.list(10**6)), sum(1 for _ in memory.scan())):
                if count % _LONG:
                    send(f"{count} texts")
