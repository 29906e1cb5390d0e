"""The measures of one ranking against its gold, with binary gains; every value is from 0 to 1.

LongMemEval's paper calls `all@k` recall@k and reports it with nDCG at turn and at session level; LoCoMo's reports
`recall@k` of its retrieved turns. nDCG is LongMemEval's (`src/retrieval/eval_utils.py`), which is that of Järvelin and
Kekäläinen (SIGIR 2000): rank r is discounted by log2(r) from rank 2 on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import log2
from statistics import fmean
from typing import Final

CUTOFFS: Final = (1, 5, 10)
NDCG_AT: Final = 10
OF_TIME: Final = "time:"
"""Beginning of the types of questions for a time alone, whose gold is all of that time."""


def measure(ranked: Sequence[str], gold: AbstractSet[str]) -> dict[str, float]:
    """Return every measure of one ranking by its name.

    Args:
        ranked: ids without repeats, best first.
        gold: the ids that should have been found.

    Raises:
        ValueError: there is no gold, or an id is ranked twice.
    """
    if not gold:
        raise ValueError("a question without gold cannot be measured")
    if len(set(ranked)) != len(ranked):
        raise ValueError("an id is ranked twice")
    found = [one in gold for one in ranked]
    measures: dict[str, float] = {}
    for k in CUTOFFS:
        count = sum(found[:k])
        measures[f"any@{k}"] = float(count > 0)
        measures[f"all@{k}"] = float(count == len(gold))
        measures[f"recall@{k}"] = count / len(gold)
    measures[f"ndcg@{NDCG_AT}"] = ndcg(found, len(gold))
    measures["mrr"] = 1 / (found.index(True) + 1) if True in found else 0.0
    return measures


def period_precision(ranked: Sequence[str], gold: AbstractSet[str]) -> dict[str, float]:
    """Return the share of the first ten that are gold, where the gold is all of an asked time."""
    return {f"period_precision@{NDCG_AT}": sum(one in gold for one in ranked[:NDCG_AT]) / min(NDCG_AT, len(gold))}


def mean(all_measures: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Average each measure over questions, each question counting the same; empty when there are none."""
    rows = list(all_measures)
    return {name: fmean(row[name] for row in rows) for name in rows[0]} if rows else {}


def sessions_of(ranked: Sequence[str], session_of: Mapping[str, str]) -> list[str]:
    """Rank sessions by their best turn; a turn without a session counts for none."""
    return list(dict.fromkeys(session_of[one] for one in ranked if one in session_of))


def ndcg(found: Sequence[bool], gold: int) -> float:
    """Return nDCG@10 of a ranking, given which of its ids are gold and how many gold ids there are, at least 1."""
    gained = sum(_discount(rank) for rank, is_gold in enumerate(found[:NDCG_AT], start=1) if is_gold)
    return gained / sum(_discount(rank) for rank in range(1, min(gold, NDCG_AT) + 1))


def _discount(rank: int) -> float:
    return 1 / log2(max(rank, 2))
