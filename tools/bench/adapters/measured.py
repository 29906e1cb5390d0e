"""The process that measures one adapter: `python -m tools.bench.adapters.measured NAME ITEMS ROUNDS FOLDER`."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import devmem
from tools.bench.adapters.operations import LIMIT, OPERATIONS, Operation
from tools.bench.synthetic import make_corpus


def main() -> None:
    """Print the figures of an adapter and of the store itself as JSON."""
    name, items, rounds, folder = sys.argv[1:5]
    logging.disable(logging.ERROR)
    print(json.dumps(asyncio.run(_measure(name, int(items), int(rounds), Path(folder)))), flush=True)


async def _measure(name: str, items: int, rounds: int, folder: Path) -> dict[str, float]:
    with (
        devmem.open(folder / "adapter.db", embedding=None) as through,
        devmem.open(folder / "store.db", embedding=None) as itself,
    ):
        async with OPERATIONS[name](through) as adapter:

            async def put(text: str) -> None:
                itself.add(text)

            async def search(query: str) -> None:
                itself.search(query, limit=LIMIT)

            texts = make_corpus(items + rounds, dimension=2).texts
            for text in texts[:items]:
                await adapter.put(text)
                await put(text)
            figures = await _alternating("put", adapter.put, put, texts[items:])
            if adapter.search is not None:
                queries = [" ".join(text.split()[3:10]) for text in texts[:rounds]]
                figures |= await _alternating("search", adapter.search, search, queries)
    return figures


async def _alternating(name: str, adapter: Operation, store: Operation, texts: Sequence[str]) -> dict[str, float]:
    """Measure both in turns, so that what disturbs one disturbs the other; medians in ms."""
    times: dict[Operation, list[float]] = {adapter: [], store: []}
    for number, text in enumerate(texts):
        # The first of both to meet a word has it stemmed for the other one too.
        for operation, found in (list, reversed)[number % 2](times.items()):
            started = time.perf_counter()
            await operation(text)
            found.append((time.perf_counter() - started) * 1000)
    through, itself = (float(np.median(found)) for found in times.values())
    return {f"{name}_p50": through, f"store_{name}_p50": itself}


if __name__ == "__main__":
    main()
