"""The cost of a memory that `devmem.open` opens: one text, one message of a conversation, a batch, a search, a look-up.

Without a model, so that what devmem itself does is not hidden behind an embedding. Times are those of calls in this
process, medians of single calls.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

import devmem
from tools.bench.rows import JsonFile, Row, report
from tools.bench.synthetic import make_corpus

_CALLS = 150


def command(
    sizes: Annotated[str, typer.Option(help="Numbers of memories, as 1000,10000.")] = "1000,10000",
    json_file: JsonFile = None,
) -> None:
    """Measure what a memory in a file costs for each call."""
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--sizes takes numbers such as 1000,10000, not {sizes!r}") from error
    report([row for size in numbers for row in run(size)], json_file)


def run(size: int) -> Iterator[Row]:
    """Fill a memory and measure its calls."""
    case, texts = f"{size / 1000:g}k", make_corpus(size + _CALLS, dimension=8).texts
    with tempfile.TemporaryDirectory() as folder, devmem.open(Path(folder, "memory.db"), embedding=None) as memory:
        started = time.perf_counter()
        ids = memory.add([f"{text} {at}" for at, text in enumerate(texts[:size])], user="ann")
        rate = size / (time.perf_counter() - started)
        yield Row(bench="memory", case=case, metric="batch_add_per_s", value=rate, unit="items/s")
        numbers = count(size)
        calls: dict[str, Callable[[], object]] = {
            "search_p50": lambda: memory.search(texts[next(numbers) % size][:40], user="ann", limit=10),
            "get_p50": lambda: memory.get(ids[next(numbers) % size]),
            "add_text_p50": lambda: memory.add(f"news {next(numbers)}", user="ann"),
            "add_message_p50": lambda: memory.add(
                {"role": "user", "content": f"news {next(numbers)}"}, user="ann", conversation="chat"
            ),
        }
        for metric, call in calls.items():
            call()
            value = median(_seconds(call) for _ in range(_CALLS)) * 1e3
            yield Row(bench="memory", case=case, metric=metric, value=value, unit="ms")


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
