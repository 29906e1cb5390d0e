"""Notes with embeddings, and processes that work on the same collection."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.testing import HashEmbedder

WORKERS = Path(__file__).parent / "workers"


@pytest.fixture
def workers() -> Path:
    """The folder of the scripts that run in processes of their own."""
    return WORKERS


@pytest.fixture
def embedder() -> HashEmbedder:
    """The embedder that the scripts use too."""
    return HashEmbedder(dimension=32)


@pytest.fixture
def notes(embedder: HashEmbedder) -> Callable[..., list[MemoryItem]]:
    """Make items `start` to `stop` of an endless list, each with its embedding."""

    def made(start: int, stop: int, *, about: str = "note") -> list[MemoryItem]:
        texts = [f"{about} number {n} about {('tea', 'rain', 'trains', 'bread')[n % 4]}" for n in range(start, stop)]
        vectors = embedder.embed(texts)
        return [
            MemoryItem(id=f"{about} {start + at}", content_summary=text, embedding=vectors[at])
            for at, text in enumerate(texts)
        ]

    return made


class Operator:
    """Another process that does what it is told to a collection."""

    def __init__(self, process: Any) -> None:
        self._process = process

    def __call__(self, do: str, **arguments: Any) -> Any:
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait()}"
        return json.loads(line)

    def finish(self) -> int:
        """Let it close the collection; gives its exit code."""
        self._process.stdin.close()
        return int(self._process.wait(timeout=60))


@pytest.fixture
def operator(start_script: Callable[..., Any], workers: Path) -> Callable[[Path], Operator]:
    """Start another process on a collection's file."""
    return lambda path: Operator(start_script(workers / "operate.py", path))
