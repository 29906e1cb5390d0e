"""A store that is opened, used and closed again and again: memory, threads and open files stay as they are."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import devmem
from devmem.testing import HashEmbedder
from tools.postgres_server import PostgresServer
from tools.torture.children import Child
from tools.torture.results import Plan, Result

_SAMPLES: Final = 20
_PART: Final = 5
"""Number of samples at the end that are compared with as many before: what is loaded once has been loaded then."""
_MOST_GROWTH: Final = 8 << 20
"""Bytes by which the process may grow between these: SQLite and the allocator keep some of what was in use."""
_MODEL: Final = HashEmbedder(dimension=32)
_USER: Final = "ann"

Send = Callable[[str], None]
Use = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory, threads and files of a process between two rounds."""

    resident: int
    """Bytes of memory."""
    threads: int
    files: int
    """Number of open file descriptors."""


def run(plan: Plan) -> list[Result]:
    """Use a file, a memory in the process and a workflow in as many rounds as a service has in a long time."""
    rounds = plan.extent(short=100, full=10_000)
    return [
        _torture("growth:file", rounds, partial(_use, str(plan.folder / "growth.db"))),
        _torture("growth:memory", rounds // 5, partial(_use, ":memory:")),
    ]


def run_postgres(plan: Plan) -> list[Result]:
    """Use a PostgreSQL store in many rounds."""
    with closing(PostgresServer()) as server:
        place = server.url(store="growth")
        return [_torture("postgres_growth", plan.extent(short=20, full=200), partial(_use, place))]


def _torture(fault: str, rounds: int, use: Use) -> Result:
    result = Result(fault=fault)
    with Child(partial(_repeat, use, rounds)) as child:
        samples = [Sample(*map(int, line.split())) for line in child.finish()]
    if child.status:
        result.fail("unrecovered", f"a round ended with {child.status}")
        return result
    result.tried = rounds
    before, after = samples[-2 * _PART : -_PART], samples[-_PART:]
    grown = median(each.resident for each in after) - median(each.resident for each in before)
    if grown > _MOST_GROWTH:
        result.fail("unrecovered", f"it grew by {grown / 1e6:.1f} MB from one quarter to the last")
    for name in ("threads", "files"):
        counts = {getattr(each, name) for each in (*before, *after)}
        if len(counts) > 1:
            result.fail("unrecovered", f"the number of {name} was {sorted(counts)}")
    sizes = " ".join(f"{each.resident / 1e6:.0f}" for each in samples[:: _SAMPLES // 4])
    last = samples[-1]
    result.notes.append(
        f"{fault}: {rounds:,} rounds: {sizes} {last.resident / 1e6:.0f} MB, {last.threads} threads, {last.files} files"
    )
    return result


def _repeat(use: Use, rounds: int, send: Send) -> None:
    for number in range(rounds):
        use(number)
        if (number + 1) % max(1, rounds // _SAMPLES) == 0:
            gc.collect()
            send(f"{_resident()} {threading.active_count()} {_files()}")


def _files() -> int:
    """Return the number of open file descriptors, that of the folder which lists them among them."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _use(place: str, number: int) -> None:
    """Call what a session calls, and forget all of it, so that the store does not grow."""
    with devmem.open(place, embedding=_MODEL) as memory:
        ann = memory.scoped(user=_USER)
        first, *_ = ann.add([f"note {number} about topic {topic}" for topic in range(3)], metadata={"round": number})
        ann.update(first, f"another note {number}", metadata={"round": None})
        with ann.run() as pending:
            pending.add(f"note {number} of a run")
        hits = ann.search(f"note {number}", limit=3)
        assert len(hits) == 3, hits
        assert ann.context("note")
        assert len(ann.history(first)) == 2
        with ann.as_of(time.time()) as snapshot:
            snapshot.search("note")
        assert memory.forget(user=_USER).items == 4
        assert memory.count(user=_USER) == 0
