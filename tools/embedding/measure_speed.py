"""Prints how fast the `minilm` provider is on this machine.

    python -m tools.embedding.measure_speed [RUNS]

One row a backend: time from opening to the first vector, median time of a query of about 20 tokens, texts a second
in batches of 64 of about 20 and of about 100 tokens, and resident memory at the end. One thread, wall-clock time.
Each backend runs in a process of its own, so that none is measured with another one's memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter

_SENTENCE = "The quick brown fox jumps over the lazy dog near the old river bank every single day"
_BACKENDS = ("numpy", "onnx")
_BATCH = 64


def _seconds(action: Callable[[], object], runs: int) -> float:
    times = []
    for _ in range(runs):
        start = perf_counter()
        action()
        times.append(perf_counter() - start)
    return median(times)


def _resident_megabytes() -> str:
    if not sys.platform.startswith("linux"):
        return "?"
    import resource

    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f}"


def measure(backend: str, runs: int) -> None:
    """Measure one backend in this process and print its row."""
    from devmem.config.embedding import EmbeddingConfig
    from devmem.embedding import open_embedder

    config = EmbeddingConfig.model_validate({"params": {"backend": backend}})
    start = perf_counter()
    embedder = open_embedder(config)
    embedder.embed([_SENTENCE])
    first = perf_counter() - start
    query = _seconds(lambda: embedder.embed([_SENTENCE]), runs * 10)
    short = _BATCH / _seconds(lambda: embedder.embed([_SENTENCE] * _BATCH), runs)
    long = _BATCH / _seconds(lambda: embedder.embed([" ".join([_SENTENCE] * 5)] * _BATCH), runs)
    print(f"{backend:8}{first:9.2f}{query * 1e3:10.1f}{short:12.0f}{long:13.0f}{_resident_megabytes():>7}")


def main() -> None:
    """Measure every backend, each in its own process."""
    runs = sys.argv[1] if len(sys.argv) > 1 else "5"
    print(f"{'backend':8}{'first s':>9}{'query ms':>10}{'64x20 t/s':>12}{'64x100 t/s':>13}{'MB':>7}", flush=True)
    for backend in _BACKENDS:
        code = f"from tools.embedding.measure_speed import measure; measure({backend!r}, {int(runs)})"
        subprocess.run([sys.executable, "-c", code], check=True)


if __name__ == "__main__":
    main()
