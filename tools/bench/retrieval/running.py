"""Running every case over every haystack of a data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tools.bench.retrieval.asking import Answer, ask_all
from tools.bench.retrieval.cases import Case
from tools.bench.retrieval.dataset import Dataset, Haystack
from tools.bench.retrieval.memo import EmbeddingMemo

Advance = Callable[[int], None]
"""Called with the number of steps done since the last call; an item taken in and a question asked are one each."""


@dataclass(slots=True, kw_only=True)
class CaseResult:
    """Results of one case on one data set."""

    case: str
    answers: list[tuple[Haystack, Answer]] = field(default_factory=list)
    items: int = 0
    index_bytes: int = 0


def steps(dataset: Dataset, cases: Sequence[Case]) -> int:
    """Return the number of steps of a run."""
    return len(cases) * (dataset.items + dataset.questions)


def run(dataset: Dataset, cases: Sequence[Case], memo: EmbeddingMemo, advance: Advance) -> list[CaseResult]:
    """Ask every question of every case, haystack by haystack."""
    results = [CaseResult(case=case.name) for case in cases]
    for haystack in dataset.haystacks:
        for case, result in zip(cases, results, strict=True):
            _run_one(haystack, case, result, memo, advance)
    return results


def _run_one(haystack: Haystack, case: Case, result: CaseResult, memo: EmbeddingMemo, advance: Advance) -> None:
    taken = 0

    def progress(done: int) -> None:
        nonlocal taken
        advance(done - taken)
        taken = done

    with case.opened(haystack.items, memo, progress) as searcher:
        for answer in ask_all(searcher, haystack, memo):
            result.answers.append((haystack, answer))
            advance(1)
    result.items += len(haystack.items)
    result.index_bytes += searcher.index_bytes
