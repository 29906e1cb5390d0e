"""The approximate index of vectors: what it finds of the exactly nearest ones, and what that costs, by size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Final

import numpy as np
import typer

from devmem.search.indexes.vectors import VectorIndex
from tools.bench.rows import JsonFile, Row, report
from tools.bench.speed.rows import label, parse_size
from tools.bench.synthetic import BLOCK, Blocks

_DEPTHS: Final = (10, 200)
"""Numbers of nearest vectors; a collection asks for the second."""
_BATCH: Final = 1_000


def command(
    sizes: Annotated[str, typer.Option("--sizes", help="Numbers of vectors, as in 10k,100k.")] = "10k,100k,300k",
    questions: Annotated[int, typer.Option(min=1, help="Number of questions.")] = 200,
    json_file: JsonFile = None,
) -> None:
    """Compare the approximate index with the exactly nearest vectors."""
    try:
        wanted = [parse_size(part) for part in sizes.split(",")]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    report([row for size in wanted for row in run(size, questions)], json_file)


def run(size: int, questions: int) -> Iterator[Row]:
    """Build an index of `size` generated vectors as a collection does, and ask it."""
    blocks = Blocks()
    vectors = np.concatenate([blocks.block(number).vectors for number in range(-(-size // BLOCK))])[:size]
    queries = blocks.block(9_999).vectors[:questions]
    index = VectorIndex(vectors.shape[1])
    for start in range(0, size, _BATCH):
        batch = vectors[start : start + _BATCH]
        index.add(np.arange(start, start + len(batch), dtype=np.int64), batch)
    index.wait_for_build()
    reader, case = index.reader(), label(size)
    for depth in _DEPTHS:
        shares, spent, errors = list[float](), list[float](), list[float]()
        for query in queries:
            exact = vectors @ query
            best = np.argsort(-exact, kind="stable")[:depth]
            started = time.process_time()
            rows, near = reader.nearest(query, depth)
            spent.append(1000 * (time.process_time() - started))
            shares.append(float(np.isin(best, rows).mean()))
            errors += np.abs(near - exact[rows]).tolist()
        yield Row(bench="vectors", case=case, metric=f"recall@{depth}", value=float(np.mean(shares)), unit="share")
        yield Row(bench="vectors", case=case, metric=f"cpu_p50@{depth}", value=float(np.median(spent)), unit="ms")
        yield Row(bench="vectors", case=case, metric=f"largest_error@{depth}", value=max(errors), unit="cosine")
