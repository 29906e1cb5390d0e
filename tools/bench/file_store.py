"""The cost of a `file` store on real folders: first index, reload, one change, one deletion, one rename.

The folders are copied, so that files in them can be changed. With DEVMEM_BENCH_MODEL=minilm the chunks are
embedded by the offline model; without it by a hash, which leaves what the store itself costs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from devmem.stores import EmbeddingConfig, IndexReport, MemoryQuery, StoreSetup, open_embedder
from devmem.testing import HashEmbedder
from devmem_stores.file import FileConfig, FileMemory
from tools.bench.rows import JsonFile, Row, report

_IGNORED = ("site-packages", "__pycache__")
_QUESTION = "How do I parse a JSON document?"
MODEL_VARIABLE = "DEVMEM_BENCH_MODEL"
"""`minilm` measures with the model; anything else with a hash."""


def command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            exists=True, file_okay=False, help="What to index; this project's docs and the library if absent."
        ),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure a `file` store: first index, reload, one change, one deletion, one rename."""
    report(list(run(folders or ())), json_file)


def run(paths: Sequence[Path] = ()) -> Iterator[Row]:
    """Measure each step; without paths, this project's `docs/` and the standard library of this Python."""
    sources = [path.resolve() for path in paths] or [Path("docs").resolve(), Path(os.__file__).parent]
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
        base = Path(folder)
        for at, source in enumerate(sources):
            shutil.copytree(source, base / f"{at}-{source.name}", ignore=shutil.ignore_patterns(*_IGNORED))
        yield from _measure(base, [f"{at}-{source.name}" for at, source in enumerate(sources)])


def _measure(base: Path, sources: Sequence[str]) -> Iterator[Row]:
    def index(case: str, change: Callable[[], object] = lambda: None) -> Iterator[Row]:
        change()
        started = time.perf_counter()
        store = _store(base, sources)
        store.load()
        seconds = time.perf_counter() - started
        if store.report is None:
            raise RuntimeError("the store was loaded and has no report")
        yield from _rows(case, seconds, store.report)
        if case == "no_change":
            started = time.perf_counter()
            store.search(MemoryQuery(text=_QUESTION))
            yield _row(case, "first_search", (time.perf_counter() - started) * 1000, "ms")
            started = time.perf_counter()
            store.search(MemoryQuery(text=_QUESTION))
            yield _row(case, "second_search", (time.perf_counter() - started) * 1000, "ms")
        store.close()

    files = (file for source in sources for file in (base / source).rglob("*.py"))
    largest = sorted(files, key=lambda file: file.stat().st_size)
    changed, deleted, renamed = largest[-1], largest[-2], largest[-3]
    yield from index("first")
    # A file that was written within the two seconds before it was read is read once more.
    yield from index("settling")
    yield from index("no_change")
    yield from index("one_changed", lambda: _insert_line(changed))
    yield from index("one_deleted", deleted.unlink)
    yield from index("one_renamed", lambda: renamed.rename(renamed.with_stem(f"{renamed.stem}_renamed")))
    size = sum(file.stat().st_size for file in base.glob("index.db*"))
    yield _row("first", "index_bytes", size, "bytes")


def _store(base: Path, sources: Sequence[str]) -> FileMemory:
    with_model = os.environ.get(MODEL_VARIABLE) == "minilm"
    hashed = HashEmbedder(384)
    config = FileConfig.model_validate(
        {"index_path": "index.db", "file_sources": [{"path": each} for each in sources], "embedding": EmbeddingConfig()}
    )
    opened = open_embedder if with_model else lambda _config: hashed
    return FileMemory(StoreSetup(name="bench", store_type="file", config=config, base_dir=base, open_embedder=opened))


def _insert_line(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").split("\n")
    lines.insert(len(lines) // 2, "# a line that was not there before")
    file.write_text("\n".join(lines), encoding="utf-8")


def _rows(case: str, seconds: float, report: IndexReport) -> Iterator[Row]:
    yield _row(case, "index", seconds * 1000, "ms")
    for metric in ("files", "chunks", "files_read", "stored", "removed", "embedded"):
        yield _row(case, metric, getattr(report, metric), "count")


def _row(case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench="file_store", case=case, metric=metric, value=float(value), unit=unit)
