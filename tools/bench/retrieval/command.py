"""`python -m tools.bench retrieval DATASET...`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from devmem import DevmemError
from tools.bench.retrieval.cases import Bm25Case, Case, StoreCase, VectorCase
from tools.bench.retrieval.databases import postgres_cases
from tools.bench.retrieval.dataset import Dataset
from tools.bench.retrieval.forms import read_conversations
from tools.bench.retrieval.items import is_memories
from tools.bench.retrieval.madial import is_dialogues, memories_beside, read_madial
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.report import markdown, print_tables, questions_of, rows_of, write_questions
from tools.bench.retrieval.running import CaseResult, run, steps
from tools.bench.retrieval.small_talk import lines_of, with_small_talk
from tools.bench.retrieval.typos import as_statements, with_typos
from tools.bench.retrieval.variants import DEFAULT, Variant, check, parse_variant
from tools.bench.rows import JsonFile, Row, write_json

_OWN_NAMES = ("devmem", "bm25", "vector", "postgres")


def retrieval(
    datasets: Annotated[
        list[Path],
        typer.Argument(help="LoCoMo, LongMemEval, units or MADial-Bench (dialogues and memories); or gzipped."),
    ],
    variants: Annotated[
        list[str] | None,
        typer.Option(
            "--variant", metavar="NAME=YAML", help="A further case: {config: {...}, search: {...}, type: ...}."
        ),
    ] = None,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Measure stores in a PostgreSQL database too, in both modes.")
    ] = False,
    questions_file: Annotated[
        Path | None, typer.Option("--questions", help="Write each question's answers there.")
    ] = None,
    small_talk: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Put two lines of this data set before each question, as users write."),
    ] = None,
    typos: Annotated[
        bool,
        typer.Option("--typos", help="Misspell a word of each question: a letter left out, doubled, wrong, swapped."),
    ] = False,
    statements: Annotated[
        bool, typer.Option("--statements", help="State each question: leave out the words that ask.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of the documentation too.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Measure how well a store finds the evidence of questions, beside BM25 alone and vectors alone."""
    try:
        parsed = [parse_variant(one) for one in variants or ()]
        _check_names(parsed)
        read = read_datasets(datasets)
        if small_talk is not None:
            lines = [line for dataset in read_datasets([small_talk]) for line in lines_of(dataset)]
            read = [with_small_talk(dataset, lines) for dataset in read]
        read = [with_typos(dataset) for dataset in read] if typos else read
        read = [as_statements(dataset) for dataset in read] if statements else read
    except (DevmemError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    results = _measure(read, parsed, postgres=postgres)
    rows = [row for dataset, found in results for row in rows_of(dataset.name, found)]
    console = Console()
    print_tables(rows, console)
    for dataset, _ in results:
        console.print(
            f"{dataset.name}: {dataset.questions} questions on {dataset.items:,} items in {len(dataset.haystacks)} "
            f"haystacks; {dataset.not_counted} questions name no evidence that is there and are not counted"
            + (f"; {dataset.left_out} turns without text are left out" if dataset.left_out else ""),
            highlight=False,
        )
    if as_markdown:
        typer.echo(markdown(rows))
    _write(rows, results, json_file, questions_file)


def read_datasets(paths: Sequence[Path]) -> list[Dataset]:
    """Read the files, recognised by their content and called by their names.

    Raises:
        DataFileError: a file is no data set.
        ValueError: two files have one name.
    """
    names = [_name(path) for path in paths]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ValueError(f"two data sets are called {doubled!r}; give one of the files another name")
    dialogues = [path for path in paths if is_dialogues(path)]
    found = [read_madial(path, memories_beside(path, paths), _name(path)) for path in dialogues]
    others = [path for path in paths if path not in dialogues]
    if dialogues:
        # Memories are read with their dialogues.
        others = [path for path in others if not is_memories(path)]
    return found + [read_conversations(path, _name(path)) for path in others]


def _name(path: Path) -> str:
    return path.name.split(".")[0]


def _check_names(variants: Sequence[Variant]) -> None:
    names = [*_OWN_NAMES, *(one.name for one in variants)]
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled is not None:
        raise ValueError(f"--variant {doubled}: there are two cases of this name")
    for variant in variants:
        with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
            check(variant, Path(folder))


def _measure(
    datasets: Sequence[Dataset], variants: Sequence[Variant], *, postgres: bool
) -> list[tuple[Dataset, list[CaseResult]]]:
    memo = EmbeddingMemo()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    results = []
    own: list[Case] = [StoreCase(DEFAULT), Bm25Case(), VectorCase(), *(StoreCase(one) for one in variants)]
    with (
        postgres_cases(postgres) as in_databases,
        Progress(*columns, console=Console(stderr=True), transient=True) as bar,
    ):
        cases = [*own, *in_databases]
        for dataset in datasets:
            task = bar.add_task(dataset.name, total=steps(dataset, cases))
            results.append((dataset, run(dataset, cases, memo, lambda done, task=task: bar.advance(task, done))))  # type: ignore[misc]
    return results


def _write(
    rows: Sequence[Row],
    results: Sequence[tuple[Dataset, list[CaseResult]]],
    json_file: Path | None,
    questions_file: Path | None,
) -> None:
    if json_file is not None:
        write_json(rows, json_file)
    if questions_file is not None:
        write_questions(
            [one for dataset, found in results for one in questions_of(dataset.name, found)], questions_file
        )
