"""A run as rows for machines, a table for people, and each question for whoever checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tools.bench.retrieval.asking import Answer
from tools.bench.retrieval.metrics import mean
from tools.bench.retrieval.running import CaseResult
from tools.bench.rows import Row

ALL: Final = "all"
_SHOWN_BY_TYPE: Final = (
    ("turn", "recall@10"),
    ("turn", "ndcg@10"),
    ("period", "period_precision@10"),
    ("session", "any@5"),
)

_IN_MARKDOWN: Final = (
    *(("turn", metric) for metric in ("any@5", "recall@5", "any@10", "recall@10", "ndcg@10", "mrr")),
    *(("session", metric) for metric in ("any@5", "recall@5", "recall@10", "ndcg@10")),
    *((None, metric) for metric in ("query_ms", "search_ms", "index_bytes_per_item")),
)


def rows_of(dataset: str, results: Sequence[CaseResult]) -> Iterator[Row]:
    """Return a row for each case, level, type and measure, then the cost of each case."""
    for result in results:
        answers = [answer for _, answer in result.answers]
        for type_, chosen in _by_type(answers).items():
            yield from _measures(dataset, result.case, type_, chosen)
        yield _row(dataset, result.case, "query_ms", median(one.query_ms for one in answers), "ms")
        yield _row(dataset, result.case, "search_ms", median(one.search_ms for one in answers), "ms")
        yield _row(dataset, result.case, "index_bytes_per_item", result.index_bytes / result.items, "bytes")


def _by_type(answers: Sequence[Answer]) -> dict[str, list[Answer]]:
    """Group the answers by the type of their question; `all` leaves out what is reported apart."""
    found: dict[str, list[Answer]] = {ALL: [one for one in answers if not one.question.apart]}
    for answer in answers:
        found.setdefault(answer.question.type, []).append(answer)
    return found


def _measures(dataset: str, case: str, type_: str, answers: Sequence[Answer]) -> Iterator[Row]:
    by_level = {
        "turn": [one.turn for one in answers],
        "period": [one.period for one in answers if one.period is not None],
        "session": [one.session for one in answers if one.session is not None],
    }
    for level, measured in by_level.items():
        for metric, value in mean(measured).items():
            yield Row(
                bench="retrieval",
                dataset=dataset,
                case=case,
                level=level,
                type=type_,
                metric=metric,
                value=value,
                unit="share",
            )
        if measured:
            yield Row(
                bench="retrieval",
                dataset=dataset,
                case=case,
                level=level,
                type=type_,
                metric="questions",
                value=float(len(measured)),
                unit="count",
            )


def _row(dataset: str, case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench="retrieval", dataset=dataset, case=case, metric=metric, value=float(value), unit=unit)


def print_tables(rows: Sequence[Row], console: Console) -> None:
    """Print a table of the overall measures a data set, and one of a few measures by type of question."""
    for dataset in dict.fromkeys(row.dataset for row in rows):
        here = [row for row in rows if row.dataset == dataset]
        overall = [row for row in here if row.type in (ALL, None)]
        _print(f"{dataset}: all questions", overall, console)
        typed = [row for row in here if row.type not in (ALL, None) and (row.level, row.metric) in _SHOWN_BY_TYPE]
        if len({row.type for row in typed}) > 1:
            _print(f"{dataset}: by type of question", typed, console)


def _print(title: str, rows: Sequence[Row], console: Console) -> None:
    cases = list(dict.fromkeys(row.case for row in rows))
    table = Table("level", "type", "metric", "unit", *cases, title=title)
    values = {(row.level, row.type, row.metric, row.case): row.value for row in rows}
    for level, type_, metric, unit in dict.fromkeys((row.level, row.type, row.metric, row.unit) for row in rows):
        shown = [values.get((level, type_, metric, case)) for case in cases]
        table.add_row(level, type_, metric, unit, *("" if value is None else _shown(value, unit) for value in shown))
    console.print(table)


def _shown(value: float, unit: str) -> str:
    return f"{100 * value:.1f} %" if unit == "share" else f"{value:,.4g}"


def markdown(rows: Sequence[Row]) -> str:
    """Write the table of docs/benchmarks.md: a row for each data set and case, shares in percent."""
    titles = [" ".join(filter(None, column)) for column in _IN_MARKDOWN]
    lines = [f"| {' | '.join(('data set', 'case', *titles))} |", f"| {' | '.join(['---'] * (len(titles) + 2))} |"]
    values = {(row.dataset, row.case, row.level, row.metric): row for row in rows if row.type in (ALL, None)}
    for dataset, case in dict.fromkeys((row.dataset, row.case) for row in rows):
        found = [values.get((dataset, case, level, metric)) for level, metric in _IN_MARKDOWN]
        cells = ["" if row is None else _shown(row.value, row.unit).removesuffix(" %") for row in found]
        lines.append(f"| {' | '.join((str(dataset), case, *cells))} |")
    return "\n".join(lines)


def questions_of(dataset: str, results: Sequence[CaseResult]) -> list[dict[str, Any]]:
    """Return every answer of every case as JSON."""
    return [
        {
            "dataset": dataset,
            "haystack": haystack.id,
            "case": result.case,
            "id": answer.question.id,
            "question": answer.question.text,
            "type": answer.question.type,
            "gold": sorted(answer.question.gold),
            "gold_sessions": sorted(answer.question.gold_sessions),
            "ranked": answer.ranked,
            "ranked_sessions": answer.sessions,
            "metrics": {"turn": answer.turn, "session": answer.session},
            "query_ms": round(answer.query_ms, 3),
            "search_ms": round(answer.search_ms, 3),
        }
        for result in results
        for haystack, answer in result.answers
    ]


def write_questions(questions: Sequence[dict[str, Any]], path: Path) -> None:
    """Write them as a JSON list, one a line."""
    lines = ",\n".join(json.dumps(question, ensure_ascii=False) for question in questions)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
