"""`python -m tools.bench providers DATASET...`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from devmem import DevmemError
from tools.bench.providers.cases import BASE, cases
from tools.bench.providers.speed import measure_speed, questions_of, texts_of
from tools.bench.retrieval.cases import StoreCase
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Dataset
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.report import ALL, rows_of
from tools.bench.retrieval.running import run, steps
from tools.bench.retrieval.variants import Variant
from tools.bench.rows import JsonFile, Row, write_json
from tools.bench.speed.rows import parse_size

_METRICS: Final = ("any@5", "recall@10", "ndcg@10")
_SPEED: Final = ("search_p50", f"search_to_{BASE}", "query_p50", "embed_per_s", "disk_bytes_per_item")


def providers(
    datasets: Annotated[
        list[Path], typer.Argument(help="As for `retrieval`; their texts are those of the stores too.")
    ],
    size: Annotated[str, typer.Option("--size", help="Number of items of the stores that are timed.")] = "10k",
    local: Annotated[
        Path | None, typer.Option("--local", help="Folder of a sentence-transformers model; all-MiniLM-L6-v2 without.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", help="Folder of an exported model; all-MiniLM-L6-v2 without.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CASE", help="Leave out the other cases, but minilm.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Measure how well and how fast stores find with each embedding provider, with token vectors and without."""
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as name:
        try:
            read, count = read_datasets(datasets), parse_size(size)
            variants = [*cases(only or (), local, onnx, Path(name), notes)]
            texts = texts_of(read, count)
        except (DevmemError, ValueError) as error:
            raise typer.BadParameter(str(error)) from error
        rows = _measure(read, variants, texts, Path(name))
    typer.echo(markdown(rows))
    for note in notes:
        Console().print(note, highlight=False, soft_wrap=True)
    if json_file is not None:
        write_json(rows, json_file)


def _measure(datasets: Sequence[Dataset], variants: Sequence[Variant], texts: Sequence[str], folder: Path) -> list[Row]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stores = [StoreCase(variant) for variant in variants]
    memo = EmbeddingMemo()
    questions = questions_of(datasets)
    rows: list[Row] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def task(name: str, total: int) -> Callable[[int], None]:
            added = bar.add_task(name, total=total)
            return lambda done: bar.advance(added, done)

        for dataset in datasets:
            found = run(dataset, stores, memo, task(dataset.name, steps(dataset, stores)))
            rows += [row for row in rows_of(dataset.name, found) if row.type in (ALL, None)]
        advance = task(f"{len(texts):,} items", len(variants) * (len(texts) + len(questions)))
        rows += measure_speed(variants, texts, questions, folder, advance)
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """Write the table of docs/benchmarks.md: a row for each case, shares in percent."""
    values = {(row.case, row.dataset, row.level, row.metric): row.value for row in rows}
    names = [name for name in dict.fromkeys(row.dataset for row in rows) if name is not None]
    titles = ["provider", *(f"{name} {metric}" for name in names for metric in _METRICS), *_SPEED]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join(['---'] * len(titles))} |"]
    for case in dict.fromkeys(row.case for row in rows):
        shares = [f"{100 * values[case, name, 'turn', metric]:.1f}" for name in names for metric in _METRICS]
        speed = [f"{values[case, None, None, metric]:,.4g}" for metric in _SPEED]
        lines.append(f"| {' | '.join((case, *shares, *speed))} |")
    return "\n".join(lines)
