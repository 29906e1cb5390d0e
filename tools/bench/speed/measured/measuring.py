"""Shared code of the measured processes. It imports numpy alone: a peer runs it in an environment without devmem.

A process is started as `SCRIPT PHASE CORPUS SIZE FOLDER` and prints one JSON object as its last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = 20.0
"""Maximum duration of all questions together: fewer slow ones are asked, but at least `FEWEST`."""
FEWEST = 5
TOP_K = 10


@dataclass(frozen=True)
class Timing:
    """Duration of each call, in ms."""

    wall: list[float]
    cpu: list[float]
    """CPU time of the process with all its threads, which other processes affect less than the clock's."""

    def figures(self, name: str) -> dict[str, float]:
        """Return `NAME_p50`, `NAME_p99` and `NAME_cpu_p50`."""
        shares = {f"{name}_p{share}": float(np.percentile(self.wall, share)) for share in (50, 99)}
        return {**shares, f"{name}_cpu_p50": float(np.median(self.cpu))}


def timed(call: Callable[[int], Any], count: int, seconds: float = SECONDS) -> tuple[Timing, list[Any]]:
    """Call with 0, 1, ... and return the duration and the result of each call; the first call is made twice."""
    call(0)
    timing = Timing([], [])
    results: list[Any] = []
    until = time.perf_counter() + seconds
    for number in range(count):
        started, computed = time.perf_counter(), time.process_time()
        results.append(call(number))
        ended = time.perf_counter()
        timing.wall.append((ended - started) * 1000)
        timing.cpu.append((time.process_time() - computed) * 1000)
        if ended > until and len(results) >= FEWEST:
            break
    return timing, results


def share_found(found: Iterable[Iterable[int]], nearest: Iterable[Any]) -> float:
    """Return the mean share of the exact nearest that were found, over the questions that were asked."""
    asked = zip(found, nearest, strict=False)
    return float(np.mean([len(set(ids) & set(exact.tolist())) / len(exact) for ids, exact in asked]))


def ask_all(open_store: Callable[[], Callable[[int], list[int]]], queries: Mapping[str, Any], folder: Path) -> None:
    """Open another project's store, ask it every question, and print the figures.

    Args:
        open_store: opens it and returns a function from a question's number to the numbers of the items found.
        queries: the questions, as `read_queries` returns them.
        folder: where its files are.
    """
    before = resident_bytes()
    started = time.perf_counter()
    ask = open_store()
    ask(0)
    cold_open = (time.perf_counter() - started) * 1000
    timing, found = timed(ask, len(queries["texts"]))
    after = resident_bytes()
    answer(
        {
            **timing.figures("retrieve"),
            "recall@10": share_found(found, queries["nearest"]),
            "cold_open": cold_open,
            "ram_bytes": None if before is None or after is None else after - before,
            "disk_bytes": bytes_in(folder),
        }
    )


def resident_bytes() -> int | None:
    """Return the resident memory of this process; None where the system has no /proc."""
    file = Path("/proc/self/status")
    if not file.exists():
        return None
    line = next(line for line in file.read_text().splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def bytes_in(folder: Path) -> int:
    """Return the size of all files below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def read_corpus(folder: Path, size: int) -> tuple[list[str], Any]:
    """Read the texts and the vectors into memory."""
    with (folder / "texts.txt").open(encoding="utf-8") as file:
        texts = [line.rstrip("\n") for line in islice(file, size)]
    return texts, np.array(np.load(folder / "vectors.npy", mmap_mode="r")[:size])


def read_queries(folder: Path, size: int) -> Mapping[str, Any]:
    """Read `vectors`, `texts` and `nearest`."""
    with np.load(folder / f"queries-{size}.npz") as stored:
        return {name: stored[name] for name in ("vectors", "texts", "nearest")}


def arguments() -> tuple[str, Path, int, Path]:
    """Return the phase, the corpus, its number of items, and the folder to keep files in."""
    phase, corpus, size, folder = sys.argv[1:5]
    return phase, Path(corpus), int(size), Path(folder)


def answer(measured: Mapping[str, Any]) -> None:
    """Print the figures; None values are left out."""
    print(json.dumps({key: value for key, value in measured.items() if value is not None}), flush=True)
