"""A mixed storm of processes and threads on one store: each thread's items are what it was told, and nobody else's."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from random import Random
from typing import Final

import psycopg

import devmem
from devmem import ANY, Memory, MemoryItem
from devmem.memory import RunState
from devmem.storage.postgres.location import Location
from tools.postgres_server import PostgresServer
from tools.torture.children import Child
from tools.torture.results import Plan, Result

_PROCESSES: Final = 4
_THREADS: Final = 3
_KEYS: Final = [f"k{number}" for number in range(12)]
_EVERY: Final = 1_000
_WAYS: Final = (
    *("add", "add", "add list", "update", "forget", "forget all", "run", "discarded run"),
    *("get", "search", "search", "recent", "scan", "count", "context", "history"),
)
_STEP: Final = "."
"""Line that a process sends after each step of a thread."""
_STEPS_A_KILL: Final = 3
"""Number of steps of all threads after which connections are killed."""
_POLL: Final = 0.02
"""Seconds to wait for the lines of one process."""
_KILL: Final = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'devmem' ORDER BY random() LIMIT 3"
)

Send = Callable[[str], None]
Texts = dict[str, str]


def run(plan: Plan) -> list[Result]:
    """Use a file from several threads of several processes."""
    steps = plan.extent(short=20, full=100)
    return [_torture(plan, "storm", str(plan.folder / "storm.db"), steps)]


def run_postgres(plan: Plan) -> list[Result]:
    """Use a PostgreSQL store likewise, while its connections are killed."""
    # It reports every connection that is killed.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    with closing(PostgresServer()) as server:
        steps = plan.extent(short=8, full=40)
        return [_torture(plan, "postgres_storm", server.url(store="storm"), steps, partial(_kill_connections, server))]


def _kill_connections(server: PostgresServer, processes: Sequence[Child]) -> None:
    """Kill connections after every few steps, until all processes have ended.

    Steps are counted, not seconds, so that a busy machine gets on too.
    """
    conninfo, done = Location.parse(server.url()).conninfo, 0
    with psycopg.connect(conninfo, autocommit=True) as administrator:
        while not all(process.ended for process in processes):
            now = sum(len(process.wait_for_lines(sys.maxsize, _POLL)) for process in processes)
            if now >= done + _STEPS_A_KILL:
                done = now
                administrator.execute(_KILL)


def _torture(
    plan: Plan, fault: str, place: str, steps: int, disturb: Callable[[Sequence[Child]], None] | None = None
) -> Result:
    logging.getLogger("devmem").setLevel(logging.ERROR)
    result = Result(fault=fault)
    with devmem.open(place, embedding=None):
        pass
    processes = [Child(partial(_work, plan.seed, place, steps, number)) for number in range(_PROCESSES)]
    if disturb is not None:
        disturb(processes)
    expected: dict[str, Texts] = {}
    for process in processes:
        for line in process.finish():
            if line == _STEP:
                result.tried += 1
            elif line.startswith("!"):
                result.fail("leaked" if line.startswith("! leaked") else "wrong", f"seed {plan.seed}: {line}")
            else:
                expected |= json.loads(line)
        if process.status:
            result.fail("unrecovered", f"seed {plan.seed}: a process ended with {process.status}")
    _judge(place, expected, result)
    return result


def _judge(place: str, expected: dict[str, Texts], result: Result) -> None:
    """Compare what is stored with what each thread was told in the end."""
    with devmem.open(place, embedding=None) as memory:
        found: dict[str, list[tuple[str, str]]] = {}
        for record in memory.scan(user=ANY):
            found.setdefault(str(record.user), []).append((record.id, record.text))
        for user, texts in expected.items():
            result.acknowledged += len(texts)
            there = found.pop(user, [])
            if len(there) != len(dict(there)):
                result.fail("doubled", f"items of {user}")
            if missing := texts.items() - set(there):
                result.fail("lost", f"{user}: {sorted(missing)[:3]}", len(missing))
            if more := set(there) - texts.items():
                result.fail("leaked", f"{user}: {sorted(more)[:3]} are there", len(more))
        if found:
            result.fail("leaked", f"items of {sorted(found)} are there")
        if pending := [info.run for info in memory.runs(_EVERY) if info.state is RunState.PENDING]:
            result.fail("unrecovered", f"the runs {pending[:3]} are pending")


def _work(seed: int, place: str, steps: int, process: int, send: Send) -> None:
    """Have each thread do its steps with a user of its own, on a memory that they share."""
    lock = threading.Lock()

    def tell(line: str) -> None:
        with lock:
            send(line)

    with devmem.open(place, embedding=None) as memory, ThreadPoolExecutor(_THREADS) as pool:
        started = [
            pool.submit(
                _Worker(memory, f"user{process}x{thread}", Random(f"{seed}/{process}/{thread}"), tell).work, steps
            )
            for thread in range(_THREADS)
        ]
        for each in started:
            each.result()


class _Worker:
    """One thread, and the dictionary of what it was told is there."""

    def __init__(self, memory: Memory, user: str, chance: Random, send: Send) -> None:
        self._user, self._chance, self._send = user, chance, send
        self._memory = memory.scoped(user=user)
        self._texts: Texts = {}
        self._number = 0

    def work(self, steps: int) -> None:
        """Do steps, then say what must be there in the end."""
        for _ in range(steps):
            way = self._chance.choice(_WAYS)
            try:
                self._act(way)
            except Exception as error:  # noqa: BLE001 - whatever a call raises is the finding
                self._send(f"! {self._user}: {way}: {type(error).__name__}: {str(error)[:200]}")
                self._texts = {record.id: record.text for record in self._memory.scan()}
            self._send(_STEP)
        self._send(json.dumps({self._user: self._texts}))

    def _key(self) -> str:
        return f"{self._user} {self._chance.choice(_KEYS)}"

    def _text(self) -> str:
        self._number += 1
        return f"note {self._number} of {self._user}"

    def _act(self, way: str) -> None:
        match way:
            case "add" | "add list" | "update":
                self._write(way)
            case "forget" | "forget all":
                self._forget(way)
            case "run" | "discarded run":
                self._run(way)
            case _:
                self._read(way)

    def _write(self, way: str) -> None:
        key, text = self._key(), self._text()
        if way == "add list":
            texts = {f"{self._user} {key}": self._text() for key in self._chance.sample(_KEYS, 3)}
            self._memory.add([{"text": text, "id": key} for key, text in texts.items()])
            self._texts |= texts
        elif way == "add" or key not in self._texts:
            self._memory.add(text, id=key)
            self._texts[key] = text
        else:
            self._memory.update(key, text, metadata={"n": self._number})
            self._texts[key] = text

    def _forget(self, way: str) -> None:
        if way == "forget":
            key = self._key()
            self._expect(way, self._memory.forget(key).items, int(self._texts.pop(key, None) is not None))
        elif self._chance.random() < 0.3:
            self._expect(way, self._memory.forget(where=devmem.Filter(min_trust=0.1)).items, len(self._texts))
            self._texts.clear()

    def _run(self, way: str) -> None:
        key, text = self._key(), self._text()
        run = self._memory.run()
        run.memory.add(text, id=key)
        self._expect("run", {**self._texts, key: text}, {each.id: each.text for each in run.memory.scan()})
        if way == "run":
            run.commit()
            self._texts[key] = text
        else:
            run.discard()
        run.close()

    def _read(self, way: str) -> None:
        key = self._key()
        match way:
            case "get":
                record = self._memory.get(key)
                self._expect(way, record and record.text, self._texts.get(key))
            case "count":
                self._expect(way, self._memory.count(), len(self._texts))
            case "history":
                versions = self._memory.history(key)
                self._expect(way, versions[-1].item.text if key in self._texts else None, self._texts.get(key))
            case "context":
                lines = [line for line in self._memory.context("note").splitlines() if "note" in line]
                self._expect_own(way, lines)
            case _:
                found = {record.id: record.text for record in self._listed(way)}
                self._expect_own(way, found.values())
                self._expect(way, found, self._texts)

    def _listed(self, way: str) -> Iterable[MemoryItem]:
        match way:
            case "search":
                return [hit.item for hit in self._memory.search("note", limit=99, collapse=False)]
            case "recent":
                return self._memory.list(99)
            case _:
                return self._memory.scan()

    def _expect_own(self, way: str, texts: Iterable[str]) -> None:
        if foreign := [text for text in texts if self._user not in text]:
            self._send(f"! leaked: {way} of {self._user}: {foreign[:2]}")

    def _expect(self, way: str, found: object, wanted: object) -> None:
        if found != wanted:
            self._send(f"! {self._user}: {way}: {found} in the place of {wanted}")
