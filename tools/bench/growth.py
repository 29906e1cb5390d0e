"""The cost of operations on a few items, beside the size of the store in which they are done; searched by words."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

import devmem
from devmem import Memory, MemoryItem, Scope
from devmem.memory import MemorySnapshot
from tools.bench.rows import JsonFile, Row, report

_WORDS: Final = 20_000
_TEXT_WORDS: Final = 20
_OF_ANN: Final = 2_000
"""Maximum number of items of the user whose items are changed and erased."""
_BATCH: Final = 1_000


def command(
    sizes: Annotated[list[int] | None, typer.Option("--size", min=100, help="Number of texts. Repeatable.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure the CPU time of operations whose work does not depend on the size of the store."""
    report([row for size in sizes or [1_000, 10_000, 100_000] for row in run(size)], json_file)


def run(size: int) -> Iterator[Row]:
    """Fill a store and use it."""
    with tempfile.TemporaryDirectory(prefix="devmem-growth-") as folder:
        path, texts = Path(folder) / "store.db", _texts()
        with devmem.open(path, embedding=None) as memory:
            for start in range(0, size, _BATCH):
                memory.store.add([_item(n, next(texts), size) for n in range(start, min(start + _BATCH, size))])
            for name, operation in _operations(memory, texts):
                yield _row(name, size, _seconds(operation))
        # An erasure takes the snapshot of the indexes with it: the first process makes it again.
        yield _row("command_search_after_erasure", size, _command(path, next(texts)))
        yield _row("command_search", size, _command(path, next(texts)))


def _operations(memory: Memory, texts: Iterator[str]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each operation with its name; what follows it in the store is done between two of them."""

    def search(view: Memory | MemorySnapshot) -> Callable[[], object]:
        return lambda: view.search(next(texts), user=devmem.ANY)

    yield "first_search", search(memory)
    yield "search", search(memory)
    when = time.time()
    for n in range(50):
        memory.add(next(texts), id=f"new-{n}", user="bob")
    search(memory)()
    yield "as_of_first_search", lambda: search(memory.as_of(when))()
    yield "as_of_search", lambda: search(memory.as_of(when))()
    run = memory.run("bench")
    run.memory.add(next(texts), user="bob")
    yield "run_first_search", search(run.memory)
    yield "commit", run.commit
    yield "forget_one", lambda: memory.forget("new-7", user=devmem.ANY)
    yield "update_matching", lambda: memory.update(where={"user": "ann"}, metadata={"seen": True}, user="ann")
    yield "erase_user", lambda: memory.forget(user="ann", verify=True)


def _seconds(operation: Callable[[], object]) -> float:
    started = time.process_time()
    operation()
    return time.process_time() - started


def _command(path: Path, text: str) -> float:
    """Return the seconds that `devmem search` takes as a process of its own."""
    command = [sys.executable, "-m", "devmem", "search", str(path), text, "--top-k", "5"]
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def _item(number: int, text: str, size: int) -> MemoryItem:
    user = "ann" if number < min(_OF_ANN, size // 5) else f"user {number % 50}"
    return MemoryItem(id=f"item-{number}", content_summary=text, scope=Scope(user=user))


def _texts() -> Iterator[str]:
    choose = random.Random(1)
    while True:
        yield " ".join(f"w{choose.randrange(_WORDS)}x" for _ in range(_TEXT_WORDS))


def _row(case: str, size: int, seconds: float) -> Row:
    return Row(bench="growth", case=case, level=str(size), metric="cpu", value=1000 * seconds, unit="ms")
