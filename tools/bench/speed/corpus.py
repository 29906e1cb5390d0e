"""The generated memories and questions of a run, in files that every measured process reads.

    vectors.npy      float32, shape (items, 384), unit rows
    texts.txt        one text per line
    queries-N.npz    vectors, words, and the ids of the exact nearest ten among the first N items

A folder of more items serves a smaller size too: the first N are the same in each.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.stores import Vector
from tools.bench.synthetic import BLOCK, Blocks

QUERIES: Final = 200
NEAREST: Final = 10
_FORM: Final = "clustered-1"
"""Version of the generated data."""
_QUERY_NOISE: Final = 0.5
_QUERY_WORDS: Final = 8
_BATCH_SIZE: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Questions; row by row the same one."""

    vectors: Vector
    texts: list[str]
    nearest: NDArray[np.int64]
    """The exact nearest by cosine, best first, shape (queries, 10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusFiles:
    """The first `size` memories of a folder."""

    folder: Path
    size: int

    def vectors(self) -> Vector:
        """Map the vectors from their file."""
        return np.load(self.folder / "vectors.npy", mmap_mode="r")[: self.size]  # type: ignore[no-any-return]

    def texts(self) -> Iterator[str]:
        """Yield the texts in order."""
        with (self.folder / "texts.txt").open(encoding="utf-8") as file:
            yield from (line.rstrip("\n") for line in islice(file, self.size))

    def queries(self) -> Queries:
        """Read the questions, which are generated at first use."""
        file = self.folder / f"queries-{self.size}.npz"
        if not file.exists():
            _make_queries(self, file)
        with np.load(file) as stored:
            return Queries(
                vectors=stored["vectors"], texts=[str(text) for text in stored["texts"]], nearest=stored["nearest"]
            )


def prepare(size: int, cache: Path) -> CorpusFiles:
    """Return the memories of a folder of earlier runs, or generate them there."""
    cache.mkdir(parents=True, exist_ok=True)
    for folder in cache.glob(f"{_FORM}-*"):
        made = folder.name.removeprefix(f"{_FORM}-")
        if made.isdigit() and int(made) >= size:
            return CorpusFiles(folder=folder, size=size)
    blocks = -(-size // BLOCK)
    target, unfinished = cache / f"{_FORM}-{blocks * BLOCK}", cache / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    _make(unfinished, blocks)
    unfinished.rename(target)
    return CorpusFiles(folder=target, size=size)


def _make(folder: Path, blocks: int) -> None:
    maker = Blocks()
    vectors: Any = None
    with (folder / "texts.txt").open("w", encoding="utf-8") as texts:
        for number in range(blocks):
            corpus = maker.block(number)
            texts.writelines(f"{text}\n" for text in corpus.texts)
            if vectors is None:
                shape = (blocks * BLOCK, corpus.vectors.shape[1])
                vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
            vectors[number * BLOCK : (number + 1) * BLOCK] = corpus.vectors
    vectors.flush()


def _make_queries(corpus: CorpusFiles, file: Path) -> None:
    rng = np.random.default_rng(1)
    vectors = corpus.vectors()
    chosen = np.sort(rng.choice(corpus.size, min(QUERIES, corpus.size), replace=False))
    noise = rng.standard_normal((len(chosen), vectors.shape[1]))
    asked = vectors[chosen] + _QUERY_NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    asked = (asked / np.linalg.norm(asked, axis=1, keepdims=True)).astype(np.float32)
    wanted = set(chosen.tolist())
    sources = [text for at, text in enumerate(corpus.texts()) if at in wanted]
    words = [" ".join(rng.choice(text.split(), _QUERY_WORDS, replace=False)) for text in sources]
    nearest = _nearest(vectors, asked)
    np.savez(file, vectors=asked, texts=np.array(words), nearest=nearest)


def _nearest(vectors: Vector, asked: Vector) -> NDArray[np.int64]:
    """Return the exact nearest, computed in blocks of vectors."""
    best_ids = np.zeros((len(asked), 0), dtype=np.int64)
    best = np.zeros((len(asked), 0), dtype=np.float32)
    for start in range(0, len(vectors), _BATCH_SIZE):
        scores = asked @ np.asarray(vectors[start : start + _BATCH_SIZE]).T
        ids = np.broadcast_to(np.arange(start, start + scores.shape[1]), scores.shape)
        best, best_ids = np.concatenate([best, scores], axis=1), np.concatenate([best_ids, ids], axis=1)
        order = np.argsort(-best, axis=1, kind="stable")[:, :NEAREST]
        best, best_ids = np.take_along_axis(best, order, axis=1), np.take_along_axis(best_ids, order, axis=1)
    return best_ids
