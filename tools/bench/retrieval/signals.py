"""`python -m tools.bench signals DATASET...`: what each signal of the ranking is worth to each data set.

A signal is worth what is lost without its weight. It carries over when it gains on average, whichever data set is left
out: what only gains where it was found does not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final, TypeAlias
from unittest.mock import patch

import typer
from rich.console import Console
from rich.progress import track

from devmem import DevmemError, MemoryBase
from devmem.search import score
from devmem.stores import QueryEmbedding
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Dataset, Haystack
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.metrics import measure
from tools.bench.retrieval.variants import Variant
from tools.bench.rows import JsonFile, Row, write_json

_METRICS: Final = ("recall@10", "ndcg@10")
_SIGNALS: Final = tuple(weight.name for weight in fields(score.WEIGHTS) if getattr(score.WEIGHTS, weight.name))
_ALL: Final = "all signals"
_LEAST: Final = "least without one set"
Figures: TypeAlias = dict[str, float]
"""Percent by metric, or a difference of percents."""


def signals(
    datasets: Annotated[list[Path], typer.Argument(help="Data sets as of the command `retrieval`.")],
    provider: Annotated[str, typer.Option("--embedding", help="Embedding provider of the stores.")] = "minilm",
    folder: Annotated[
        Path | None,
        typer.Option("--stores", help="Keep the imported stores in this folder, and use those that are there."),
    ] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of the documentation too.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure what each signal of the ranking is worth to each data set, and with each of them left out."""
    try:
        read = read_datasets(datasets)
    except (DevmemError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    variant = Variant(name="devmem", config={"embedding": {"provider": provider}})
    with ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="devmem-bench-")))
        found = {dataset.name: _measured(dataset, variant, root) for dataset in read}
    rows = list(_rows(found))
    console = Console()
    console.print(table(rows), highlight=False, markup=False, soft_wrap=True)
    if as_markdown:
        typer.echo(table(rows, markdown=True))
    if json_file is not None:
        write_json(rows, json_file)


def _measured(dataset: Dataset, variant: Variant, root: Path) -> dict[str, Figures]:
    """Return the measures with all signals, and without each of them."""
    answers: dict[str, list[Figures]] = {name: [] for name in (_ALL, *_SIGNALS)}
    memo = EmbeddingMemo()
    for number, haystack in enumerate(track(dataset.haystacks, dataset.name, console=Console(stderr=True))):
        with _filled(haystack, variant, memo, root / dataset.name / str(number)) as store:
            asked = [QueryEmbedding(question.text) for question in haystack.questions]
            for name, found in answers.items():
                changed = score.WEIGHTS if name == _ALL else replace(score.WEIGHTS, **{name: 0.0})
                with patch.object(score, "WEIGHTS", changed):
                    found += _answers(haystack, store, variant, asked)
    return {
        name: {metric: 100 * fmean(one[metric] for one in found) for metric in _METRICS}
        for name, found in answers.items()
    }


@contextmanager
def _filled(haystack: Haystack, variant: Variant, memo: EmbeddingMemo, folder: Path) -> Iterator[MemoryBase]:
    """Open a store with the items of a haystack, which are imported unless an earlier run did."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    if not done.exists():
        for rest in folder.glob("bench.db*"):
            rest.unlink()
    with variant.opened(folder, memo) as store:
        if not done.exists():
            store.add(haystack.items, lambda _: None)
            done.touch()
        yield store


def _answers(
    haystack: Haystack, store: MemoryBase, variant: Variant, asked: Sequence[QueryEmbedding]
) -> Iterator[Figures]:
    for question, query in zip(haystack.questions, asked, strict=True):
        if not question.apart:
            yield measure(
                [hit.item.id for hit in store.search(variant.query(query, 10, question.asked_at))], question.gold
            )


def _rows(found: Mapping[str, Mapping[str, Figures]]) -> Iterator[Row]:
    """Return the measures with all signals, what each is worth, and the least mean of that with a data set left out."""
    for name in (_ALL, *_SIGNALS):
        worth = {
            dataset: {
                metric: by_signal[_ALL][metric] - (0.0 if name == _ALL else by_signal[name][metric])
                for metric in _METRICS
            }
            for dataset, by_signal in found.items()
        }
        for dataset, figures in worth.items():
            for metric, value in figures.items():
                yield Row(bench="signals", case=name, dataset=dataset, metric=metric, value=value, unit="points")
        if name != _ALL and len(worth) > 1:
            for metric in _METRICS:
                yield Row(
                    bench="signals", case=name, dataset=_LEAST, metric=metric, value=least(worth, metric), unit="points"
                )


def least(worth: Mapping[str, Figures], metric: str) -> float:
    """Return the lowest mean over the data sets with one of them left out."""
    return min(fmean(figures[metric] for other, figures in worth.items() if other != left) for left in worth)


def table(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """Return a line for each signal: recall@10 and nDCG@10 of each data set."""
    values = {(row.case, row.dataset, row.metric): row.value for row in rows}
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    lines = [["signal", *map(str, datasets)]]
    for case in dict.fromkeys(row.case for row in rows):
        shown = "{:.1f}, {:.1f}" if case == _ALL else "{:+.1f}, {:+.1f}"
        figures = [[values.get((case, dataset, metric)) for metric in _METRICS] for dataset in datasets]
        lines.append([case, *("" if None in pair else shown.format(*pair) for pair in figures)])
    if markdown:
        lines.insert(1, ["---"] * len(lines[0]))
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
