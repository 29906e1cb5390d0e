"""The cost of encryption: adding, searching and opening an encrypted file, in turn with a plain one."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Final

import typer

import devmem
from devmem.testing import HashEmbedder
from tools.bench.rows import JsonFile, Row, report

_TEXT: Final = (
    "The meeting about release {n} was moved to room {n}. Ann brings the figures of case {n}. "
    "Nobody has to prepare anything else for number {n}, she said."
)
_BATCH: Final = 500
_ROUNDS: Final = 5
_SINGLE: Final = 50


def command(
    items: Annotated[list[int] | None, typer.Option(min=_BATCH, help="Numbers of items.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure an encrypted file beside a plain one in processor time: adding, searching, opening."""
    report([row for count in items or [1_000, 10_000] for row in run(count)], json_file)


def run(items: int) -> Iterator[Row]:
    """Measure two files of a number of items in turn; yield milliseconds of the processor, and bytes of the files."""
    keys = {"plain": None, "encrypted": secrets.token_bytes(32)}
    spent: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="devmem-encryption-") as folder:
        for turn in range(_ROUNDS):
            for name, key in keys.items():
                for metric, seconds in _measured(Path(folder) / f"{name}.db", key, items, turn):
                    spent.setdefault((name, metric), []).append(1000 * seconds)
        for (name, metric), times in spent.items():
            yield Row(bench="encryption", case=f"{name}_{items}", metric=metric, value=median(times), unit="ms")
        for name in keys:
            size = sum(file.stat().st_size for file in Path(folder).glob(f"{name}.db*"))
            yield Row(bench="encryption", case=f"{name}_{items}", metric="size", value=size / 1e6, unit="MB")


def _measured(file: Path, key: bytes | None, items: int, turn: int) -> Iterator[tuple[str, float]]:
    if turn == 0:
        with devmem.open(file, key=key, embedding=HashEmbedder()) as memory:
            started = time.process_time()
            for first in range(0, items, _BATCH):
                memory.add([_TEXT.format(n=number) for number in range(first, first + _BATCH)], user="ann")
            yield "add_batch", (time.process_time() - started) / items
    started = time.process_time()
    with devmem.open(file, key=key, embedding=HashEmbedder()) as memory:
        memory.search("release 7", user="ann")
        yield "open_and_search", time.process_time() - started
        started = time.process_time()
        for number in range(_SINGLE):
            memory.search(f"Who brings the figures of case {number * 7}?", user="ann")
        yield "search", (time.process_time() - started) / _SINGLE
        started = time.process_time()
        for number in range(_SINGLE):
            memory.add(_TEXT.format(n=10**6 + turn * _SINGLE + number), user="ann")
        yield "add", (time.process_time() - started) / _SINGLE
