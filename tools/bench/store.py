"""The cost of a `simple` store: durable updates, batches, retrieval and opening, beside raw FAISS and a JSON file."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from devmem import MemoryItem, MemoryWritePayload
from devmem.stores import CollectionMemory, MemoryQuery, Vector
from tools.bench.json_baseline import WholeFileJson
from tools.bench.rows import JsonFile, Row, report
from tools.bench.simple_store import open_simple
from tools.bench.synthetic import Corpus, make_corpus

_UPDATES = 300
_QUERIES = 300
_JSON_UPDATES = 5
_SIZES = {"1k": 1_000, "10k": 10_000}


def command(json_file: JsonFile = None) -> None:
    """Measure a `simple` store: durable updates, batches, retrieval and opening."""
    report(list(run()), json_file)


def run() -> Iterator[Row]:
    """Measure every size; rows come as they are measured, and the ratios last."""
    measured: dict[str, dict[str, float]] = {}
    for case, size in _SIZES.items():
        corpus = make_corpus(size + 2 * _UPDATES)
        with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
            measured[case] = dict(_measure(corpus, size, Path(folder)))
        for metric, value in measured[case].items():
            yield Row(bench="store", case=case, metric=metric, value=value, unit=_unit(metric))
    yield from _ratios(measured)


def _unit(metric: str) -> str:
    if metric.endswith("_per_s"):
        return "1/s"
    return "bytes" if metric.endswith("_bytes") else "ms"


def _ratios(measured: dict[str, dict[str, float]]) -> Iterator[Row]:
    small, large = measured["1k"], measured["10k"]
    ratios = {
        "update_p50_10k_to_1k": large["update_p50"] / small["update_p50"],
        "retrieve_p50_to_faiss_flat": large["retrieve_p50"] / large["faiss_flat_p50"],
        "retrieve_p50_to_faiss_flat_one_thread": large["retrieve_p50"] / large["faiss_flat_one_thread_p50"],
        "json_store_update_to_update": large["json_store_update_p50"] / large["update_p50"],
    }
    for metric, value in ratios.items():
        yield Row(bench="store", case="10k", metric=metric, value=value, unit="ratio")


def _measure(corpus: Corpus, size: int, folder: Path) -> Iterator[tuple[str, float]]:
    store = _open(corpus, folder)
    items = [MemoryItem(id=str(at), content_summary=corpus.texts[at]) for at in range(size)]
    started = time.perf_counter()
    store.add(items)
    yield "batch_add_per_s", size / (time.perf_counter() - started)
    updates = _timed(lambda at: store.update(_payload(corpus, size + at)), range(_UPDATES))
    yield "update_p50", float(np.percentile(updates, 50))
    yield "update_p99", float(np.percentile(updates, 99))
    queries = _queries(corpus, size)
    store.search(queries[0])
    yield "retrieve_p50", float(np.percentile(_timed(lambda at: store.search(queries[at]), range(_QUERIES)), 50))
    yield from _faiss(corpus, size)
    store.close()
    yield "file_bytes", float(sum(file.stat().st_size for file in folder.iterdir() if file.is_file()))
    yield "cold_open", _cold_open(corpus, folder)
    baseline = WholeFileJson(folder / "devall.json", corpus, size)
    slow = _timed(lambda at: baseline.update(corpus, size + _UPDATES + at), range(_JSON_UPDATES))
    yield "json_store_update_p50", float(np.percentile(slow, 50))


def _open(corpus: Corpus, folder: Path) -> CollectionMemory:
    # An update writes "Input: ..." before the text; its vector is the text's own.
    known = dict(zip(corpus.texts, corpus.vectors, strict=True))
    known |= {f"Input: {text}": vector for text, vector in known.items()}
    store = open_simple(folder, known, corpus.vectors.shape[1])
    store.load()
    return store


def _payload(corpus: Corpus, at: int) -> MemoryWritePayload:
    return MemoryWritePayload(inputs_text=corpus.texts[at])


def _queries(corpus: Corpus, size: int) -> list[MemoryQuery]:
    """Ask with a whole stored text's vector and the first eight of its words."""
    rng = np.random.default_rng(1)
    found = []
    for at in rng.integers(0, size, _QUERIES):
        query = MemoryQuery(text=" ".join(corpus.texts[at].split()[:8]), limit=5)
        query.embedding.known("bench:precomputed", corpus.vectors[at])
        found.append(query)
    return found


def _timed(call: Callable[[int], object], arguments: Iterable[int]) -> list[float]:
    """Time each call in ms."""
    times = []
    for argument in arguments:
        started = time.perf_counter()
        call(argument)
        times.append((time.perf_counter() - started) * 1000)
    return times


def _faiss(corpus: Corpus, size: int) -> Iterator[tuple[str, float]]:
    import faiss

    index = faiss.IndexFlatIP(corpus.vectors.shape[1])
    index.add(corpus.vectors[:size])
    rows: list[Vector] = [corpus.vectors[at : at + 1] for at in range(_QUERIES)]
    threads = faiss.omp_get_max_threads()
    for metric, count in (("faiss_flat_p50", threads), ("faiss_flat_one_thread_p50", 1)):
        faiss.omp_set_num_threads(count)
        index.search(rows[0], 5)
        yield metric, float(np.percentile(_timed(lambda at: index.search(rows[at], 5), range(_QUERIES)), 50))
    faiss.omp_set_num_threads(threads)


_COLD = """
import json, sys, time
from pathlib import Path
import numpy as np
from devmem.stores import MemoryQuery
from tools.bench.simple_store import open_simple
folder, text = Path(sys.argv[1]), sys.argv[2]
vector = np.load(folder / "asked.npy")
started = time.perf_counter()
store = open_simple(folder, {}, len(vector))
query = MemoryQuery(text=text, limit=5)
query.embedding.known("bench:precomputed", vector)
hits = store.search(query)
print(json.dumps({"ms": (time.perf_counter() - started) * 1000, "hits": len(hits)}))
"""
_ROOT = Path(__file__).parents[2]


def _cold_open(corpus: Corpus, folder: Path) -> float:
    """Open the file in a new process and answer once: ms, after the imports of devmem; FAISS is loaded within."""
    np.save(folder / "asked.npy", corpus.vectors[0])
    command = [sys.executable, "-c", _COLD, str(folder), corpus.texts[0]]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=_ROOT).stdout)
    if answer["hits"] != 5:
        raise RuntimeError(f"the reopened store gave {answer['hits']} hits instead of 5")
    return float(answer["ms"])
