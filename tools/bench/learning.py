"""Learning a store's ranking from judged hits: what a residual on top of the rules gains on other conversations.

Hits of one half of a data set's conversations are judged, a fifth of them wrongly; nDCG@10 is measured on the other
half. The residual is a logistic regression with the rules' score as its offset, whose weights shrink to 0 and whose
likelihood allows for wrong labels (Natarajan et al., NIPS 2013). It would be kept where it ranks held-back labels
better at the lower end of a 90 % interval. True labels of all candidates of the first half are the ceiling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Final, NamedTuple
from unittest import mock

import numpy as np
import typer
from numpy.typing import NDArray

from devmem import DevmemError
from devmem.search import pipeline
from devmem.search.candidates import CandidateSet
from devmem.search.score import Features, ScoreBreakdown, score_candidates
from devmem.search.source import Column, Places, QueryContext
from devmem.search.token_matching import MaxSimScorer
from devmem.stores import QueryEmbedding
from devmem.text.cues import Cue, Side, side_of
from tools.bench.retrieval.cases import StoreCase
from tools.bench.retrieval.command import read_datasets
from tools.bench.retrieval.dataset import Dataset, Haystack
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.metrics import NDCG_AT, ndcg
from tools.bench.retrieval.variants import DEFAULT
from tools.bench.rows import JsonFile, Row, report

_LABELS: Final = (10, 30, 100, 300)
_WRONG: Final = 0.2
_HITS: Final = 5
"""Number of a question's hits that are judged where each hit counts as a label."""
_UNIT: Final = 0.07
"""Difference of scores that makes one candidate e times as likely to be evidence as another."""
_LARGEST: Final = 0.2
"""Range of the residual."""
_SHRINKAGE: Final = 300.0
_SHRINKAGE_OF_ALL: Final = 30.0
_SHRINKAGE_OF_RULES: Final = 1.0
_LEAST_RELIANCE: Final = 0.25
_CANDIDATES: Final = 60
"""Number of a question's best candidates that are labelled for the ceiling."""
_FOLDS: Final = 5
_LEAST_HELD_BACK: Final = 8
"""Number of held-back questions with a useful hit below which no residual is kept."""
_Z_90: Final = 1.645
_STEPS: Final = 40
_SMALL: Final = 1e-4
"""Step of a weight at which a fit has converged."""
_REACH: Final = 2
_CLOSE: Final = (0.45, 0.6, 0.75)
"""Cosines above which a query's token counts as matched."""


@dataclass(slots=True, kw_only=True, eq=False)
class Asked:
    """The candidates of one question, n of them."""

    haystack: str
    conversation: str
    """That of the best candidate; labels of one conversation are held back together."""
    features: NDArray[np.float64]
    """Shape (n, features)."""
    scores: Column
    gold: NDArray[np.bool_]
    gold_count: int
    """Number of pieces of evidence, candidates or not."""

    def best(self, count: int) -> Places:
        """Return the places of the best candidates, best first."""
        return np.argsort(-self.scores, kind="stable")[:count]

    def rescored(self, weights: Column) -> Column:
        """Return the scores with a residual of these weights, which is 0 for the mean of the ten best."""
        residual = (self.features - self.features[self.best(NDCG_AT)].mean(axis=0)) @ weights
        return np.asarray(self.scores + np.clip(_UNIT * residual, -_LARGEST, _LARGEST))


class Labels(NamedTuple):
    """The judged candidates of one question, best first, and whether each was called useful."""

    asked: Asked
    at: Places
    useful: NDArray[np.bool_]


def command(
    datasets: Annotated[list[Path], typer.Argument(help="Data sets as `retrieval` reads them.")],
    splits: Annotated[int, typer.Option(min=1, help="Number of ways to halve the conversations.")] = 8,
    json_file: JsonFile = None,
) -> None:
    """Measure what judged hits in half of the conversations teach about the other half."""
    try:
        read = read_datasets(datasets)
    except (DevmemError, ValueError) as error:
        raise typer.BadParameter(str(error)) from error
    report([row for dataset in read for row in run(dataset, EmbeddingMemo(), splits)], json_file)


def run(dataset: Dataset, memo: EmbeddingMemo, splits: int) -> Iterator[Row]:
    """Yield the rules' nDCG@10, and what each number of labels adds to it."""
    counted = sum(not question.apart for haystack in dataset.haystacks for question in haystack.questions)
    if counted < 2:
        raise typer.BadParameter(f"{dataset.name} has {counted} questions that count; halves take at least 2")
    asked = collect(dataset, memo)
    row = partial(Row, bench="learning", dataset=dataset.name, unit="share")
    halves = [_halved(asked, np.random.default_rng(seed)) for seed in range(splits)]
    for each in ("hits", "questions"):
        for count in _LABELS:
            results = [_learned(*half, count, seed, of_hits=each == "hits") for seed, half in enumerate(halves)]
            gains, kept = [gain for gain, _ in results], [gain if is_kept else 0.0 for gain, is_kept in results]
            case = partial(row, case=f"{dataset.name} {each}:{count}")
            yield from (case(metric="gain", value=fmean(gains)), case(metric="worst", value=min(gains)))
            yield case(metric="kept", value=fmean(float(is_kept) for _, is_kept in results))
            yield from (case(metric="gain_if_kept", value=fmean(kept)), case(metric="worst_if_kept", value=min(kept)))
    rules = fmean(ndcg(one.gold[one.best(NDCG_AT)].tolist(), one.gold_count) for one in asked)
    yield row(case=f"{dataset.name} labels:none", metric="ndcg@10", value=rules)
    gains = [_gain(_fit(_all(taught), _SHRINKAGE_OF_ALL, 0.0), left) for taught, left in halves]
    case = partial(row, case=f"{dataset.name} labels:all")
    yield from (case(metric="gain", value=fmean(gains)), case(metric="worst", value=min(gains)))


def _halved(asked: Sequence[Asked], chance: np.random.Generator) -> tuple[list[Asked], list[Asked]]:
    """Divide the questions by their haystacks, or a single haystack's by chance."""
    keys = [one.haystack for one in asked]
    if len(set(keys)) == 1:
        keys = [str(number) for number in range(len(asked))]
    known = list(dict.fromkeys(keys))
    first = {known[at] for at in chance.permutation(len(known))[: len(known) // 2]}
    pairs = list(zip(asked, keys, strict=True))
    return [one for one, key in pairs if key in first], [one for one, key in pairs if key not in first]


def _learned(
    taught: Sequence[Asked], left: Sequence[Asked], count: int, seed: int, *, of_hits: bool
) -> tuple[float, bool]:
    """Return what some labels gain on the questions that are left, and whether the residual would be kept."""
    chance = np.random.default_rng(1000 + seed)
    labels: list[Labels] = []
    for one in (taught[at] for at in chance.permutation(len(taught))):
        at = one.best(min(_HITS, count)) if of_hits else one.best(NDCG_AT)
        labels.append(Labels(one, at, one.gold[at] ^ (chance.random(len(at)) < _WRONG)))
        count -= len(at) if of_hits else 1
        if count <= 0:
            break
    return _gain(_fit(labels, _SHRINKAGE, _WRONG), left), _is_better(labels, chance)


def _all(asked: Sequence[Asked]) -> list[Labels]:
    """Return true labels of all that a user could judge."""
    return [Labels(one, at, one.gold[at]) for one in asked for at in [one.best(_CANDIDATES)]]


def _fit(labels: Sequence[Labels], shrinkage: float, wrong: float) -> Column:
    """Return the residual's weights: a logistic regression on the judged candidates, by Fisher scoring.

    Args:
        labels: of at least one question.
        shrinkage: precision of the weights' prior, whose mean is 0.
        wrong: share of the labels that are wrong.
    """
    centred, relative = [], []
    for asked, at, _ in labels:
        centred.append(asked.features[at] - asked.features[asked.best(NDCG_AT)].mean(axis=0))
        relative.append((asked.scores[at] - asked.scores[asked.best(_HITS)].mean()) / _UNIT)
    offsets, useful = np.concatenate(relative), np.concatenate([one.useful for one in labels])
    # Two further weights, hardly shrunk: how many hits are useful, and how far the rules' score can be relied on.
    features = np.column_stack([np.concatenate(centred), np.ones(len(offsets)), offsets])
    precision = np.append(np.full(features.shape[1] - 2, shrinkage), [_SHRINKAGE_OF_RULES] * 2)

    def likely(weights: Column) -> Column:
        return np.asarray(1 / (1 + np.exp(-np.clip(offsets + features @ weights, -30, 30))))

    def seen(odds: Column) -> Column:
        return np.clip(wrong + (1 - 2 * wrong) * odds, 1e-9, 1 - 1e-9)

    def loss(weights: Column) -> float:
        share = seen(likely(weights))
        return float(-np.log(np.where(useful, share, 1 - share)).sum() + precision @ weights**2 / 2)

    weights = np.zeros(features.shape[1])
    for _ in range(_STEPS):
        odds, current = likely(weights), loss(weights)
        share, slope = seen(odds), (1 - 2 * wrong) * odds * (1 - odds)
        variance = share * (1 - share)
        gradient = features.T @ (slope * (share - useful) / variance) + precision * weights
        curvature = (features.T * (slope**2 / variance)) @ features + np.diag(precision)
        step = np.linalg.solve(curvature, gradient)
        while loss(weights - step) > current and np.abs(step).max() > _SMALL:
            step /= 2
        weights = weights - step
        if np.abs(step).max() <= _SMALL:
            break
    return np.asarray(weights[:-2] / max(1 + weights[-1], _LEAST_RELIANCE))


def _gain(weights: Column, asked: Sequence[Asked]) -> float:
    """Return the mean growth of nDCG@10."""
    rankings = [(one, np.argsort(-one.rescored(weights), kind="stable"), one.best(NDCG_AT)) for one in asked]
    return fmean(
        ndcg(one.gold[new].tolist(), one.gold_count) - ndcg(one.gold[old].tolist(), one.gold_count)
        for one, new, old in rankings
    )


def _is_better(labels: Sequence[Labels], chance: np.random.Generator) -> bool:
    """Whether residuals rank the labels of held-back conversations better, by five-fold cross-validation."""
    keys = [(one.asked.haystack, one.asked.conversation) for one in labels]
    known = list(dict.fromkeys(keys))
    fold_of = {known[at]: number % _FOLDS for number, at in enumerate(chance.permutation(len(known)))}
    gains: list[float] = []
    for fold in set(fold_of.values()):
        others = [one for one, key in zip(labels, keys, strict=True) if fold_of[key] != fold]
        weights = _fit(others, _SHRINKAGE, _WRONG) if others else None
        for (asked, at, useful), key in zip(labels, keys, strict=True):
            if weights is not None and fold_of[key] == fold and useful.any():
                ranked = useful[np.argsort(-asked.rescored(weights)[at], kind="stable")]
                gains.append(ndcg(ranked.tolist(), int(useful.sum())) - ndcg(useful.tolist(), int(useful.sum())))
    enough = len(gains) >= _LEAST_HELD_BACK
    return enough and bool(np.mean(gains) > _Z_90 * np.std(gains, ddof=1) / len(gains) ** 0.5)


def collect(dataset: Dataset, memo: EmbeddingMemo) -> list[Asked]:
    """Ask every question that counts, and return its candidates with their features on a common scale."""
    found = [one for haystack in dataset.haystacks for one in _ask(haystack, memo)]
    spread = np.concatenate([one.features - one.features.mean(axis=0) for one in found]).std(axis=0)
    for one in found:
        one.features = np.divide(one.features, spread, out=np.zeros_like(one.features), where=spread > _SMALL)
    return found


def _ask(haystack: Haystack, memo: EmbeddingMemo) -> Iterator[Asked]:
    recorder = _Recorder()
    with (
        StoreCase(DEFAULT).opened(haystack.items, memo, lambda _: None) as searcher,
        mock.patch.object(pipeline, "score_candidates", recorder.score_candidates),
    ):
        for question in haystack.questions:
            recorder.ids = []
            if not question.apart:
                searcher.search(QueryEmbedding(question.text), NDCG_AT)
            if recorder.ids:
                best = recorder.ids[int(np.argmax(recorder.scores))]
                yield Asked(
                    haystack=haystack.id,
                    conversation=haystack.session_of.get(best, best),
                    features=recorder.features,
                    scores=recorder.scores,
                    gold=np.array([one in question.gold for one in recorder.ids]),
                    gold_count=len(question.gold),
                )


class _Recorder:
    """Stands in for the pipeline's scoring, and keeps the features of the last search's candidates."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.scores: Column = np.empty(0)
        self.features: NDArray[np.float64] = np.empty((0, 0))

    def score_candidates(
        self,
        context: QueryContext,
        candidates: CandidateSet,
        fused: Column,
        max_sim: Column,
        matches: MaxSimScorer | None,
    ) -> ScoreBreakdown:
        """Return the scores that the pipeline would have computed."""
        breakdown = score_candidates(context, candidates, fused, max_sim, matches)
        items = context.source.items(candidates.rows.tolist())
        self.ids, self.scores = [items[row].id for row in candidates.rows.tolist()], breakdown.total()
        columns = [
            *(getattr(breakdown, part.name) for part in fields(breakdown) if part.name not in _NO_PARTS),
            *(getattr(breakdown.features, part.name) for part in fields(Features) if part.name != "thread"),
            *_own(context, candidates),
            *_conversation(breakdown.features.thread, self.scores),
            *_around(context, candidates, breakdown, matches),
            *_tokens(candidates, matches),
            fused,
            np.log1p(_ranks(-self.scores)),
        ]
        self.features = np.stack(columns, axis=1).astype(np.float64)
        return breakdown


_NO_PARTS: Final = ("features", "late_interaction")


def _ranks(values: Column) -> Column:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)


def _own(context: QueryContext, candidates: CandidateSet) -> list[Column]:
    """Return the candidates' similarity, length, time, side and cues."""
    doc_values = context.indexes.doc_values
    positions = doc_values.positions(candidates.rows)
    lengths, times, cues = (doc_values.column(name)[positions] for name in ("length", "time", "cues"))
    sides = [side_of(speaker) if speaker else None for speaker in doc_values.speakers(positions)]
    return [
        np.nan_to_num(candidates.similarity),
        np.log1p(lengths),
        _ranks(times) / len(times),
        *(np.array([side is other for side in sides], dtype=np.float64) for other in Side),
        *(((cues & cue) > 0).astype(np.float64) for cue in Cue if cue),
    ]


def _conversation(thread: Places, scores: Column) -> list[Column]:
    """Return the rank of each candidate in its conversation, that one's size, best score and mean of the best three."""
    found = np.zeros((4, len(scores)))
    for one in np.unique(thread[thread >= 0]):
        members = np.flatnonzero(thread == one)
        best = np.sort(scores[members])[::-1][:3]
        found[0, members] = np.log1p(_ranks(-scores[members]))
        found[1:, members] = np.array([np.log1p(len(members)), best[0], best.mean()])[:, np.newaxis]
    return list(found)


def _around(
    context: QueryContext, candidates: CandidateSet, breakdown: ScoreBreakdown, matches: MaxSimScorer | None
) -> list[Column]:
    """Return the words and the late interaction of each turn around, and whether there is one before."""
    doc_values = context.indexes.doc_values
    steps = context.turns_around(doc_values.positions(candidates.rows), _REACH)
    found: list[Column] = [(steps[_REACH - 1] < 0).astype(np.float64)]
    for step in steps:
        rows = np.where(step >= 0, doc_values.rows(step), -1)
        at = np.searchsorted(candidates.rows, rows).clip(max=len(candidates.rows) - 1)
        found += [np.where(candidates.rows[at] == rows, breakdown.features.coverage[at], 0.0), np.zeros(len(rows))]
        if matches is not None and (rows >= 0).any():
            found[-1][rows >= 0] = np.nan_to_num(matches.scores(rows[rows >= 0]))
    return found


def _tokens(candidates: CandidateSet, matches: MaxSimScorer | None) -> list[Column]:
    """Return statistics of the matches of the query's tokens; those of a single 0 where there are none."""
    best = matches.by_token(candidates.rows) if matches is not None else np.zeros((1, len(candidates.rows)))
    weights = matches.weights if matches is not None else np.ones(1)
    top, middle = best.max(axis=1, keepdims=True), np.median(best, axis=1, keepdims=True)
    relative = (best - middle) / np.maximum(top - middle, 1e-3)
    summed = [weights @ values for values in (*(best > close for close in _CLOSE), relative, relative**2, best >= top)]
    return [best.mean(axis=0), best.min(axis=0), best.max(axis=0), best.std(axis=0), best[weights.argmax()], *summed]
