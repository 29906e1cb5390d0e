"""The rerank stage: a store's best hits in the order of a reranker."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, SupportsFloat

from devmem.config.store import RerankerConfig, RetrievalConfig
from devmem.errors import DevmemError, MissingExtraError, RerankerError
from devmem.model.results import Hit, RejectedCandidate, RejectReason, SearchReport
from devmem.models.reranking import Reranker, open_reranker
from devmem.search.query import DAY, Ranking
from devmem.text.retry import Backoff

_LOG: Final = logging.getLogger(__name__)


def ranking_of(config: RetrievalConfig) -> Ranking:
    """Return the ranking options of a store's `retrieval:` block."""
    return Ranking(
        late_interaction=config.late_interaction,
        context=config.context,
        time=config.time,
        recency=config.recency,
        half_life=config.half_life_days * DAY,
        importance=config.importance,
        diversity=config.diversity,
        collapse=config.collapse,
        focus=config.focus,
        spelling=config.spelling,
    )


class RerankStage:
    """Reorders a store's best hits by the scores of a reranker.

    When the reranker fails, the hits keep the order of the search and the report says why. The stage then backs off, so
    that a service that is down does not delay every search.
    """

    def __init__(self, reranker: Reranker, config: RerankerConfig, *, store: str, clock: Callable[[], float]) -> None:
        """Take the reranker of a store's `retrieval:` block and the store's name; `clock` is monotonic, in seconds."""
        self._reranker, self._depth = reranker, config.depth
        self._name = f"memory store {store!r}: the reranker {config.type!r}"
        self._backoff = Backoff(clock=clock)
        self._last = ""

    def candidates(self, top_k: int) -> int:
        """Return the number of hits to search for when `top_k` are wanted."""
        return max(top_k, self._depth)

    def at(self, report: SearchReport, query: str, top_k: int) -> SearchReport:
        """Rerank the first `depth` hits and keep the best `top_k`.

        The others follow in their order, their scores moved below those of the reranker.
        """
        if not report.hits:
            return report
        if left := self._backoff.left:
            failure = f"{self._name} backs off for another {math.ceil(left)} s; {self._last}"
            return _kept(replace(report, failure=failure), report.hits, top_k, RejectReason.LIMIT)
        read, rest = report.hits[: self._depth], report.hits[self._depth :]
        started = time.perf_counter()
        texts = [hit.passage or hit.item.content_summary for hit in read]
        try:
            scores = _checked(self._reranker.scores(query, texts), len(read))
        except Exception as error:  # noqa: BLE001 - a reranker may be a stranger's code
            failed = replace(_timed(report, started), failure=self._failed(error))
            return _kept(failed, report.hits, top_k, RejectReason.LIMIT)
        self._backoff.worked()
        scored = [replace(hit, score=score, rerank=score) for hit, score in zip(read, scores, strict=True)]
        ordered = [*sorted(scored, key=lambda hit: -hit.score), *_below(min(scores), rest)]
        done = replace(_timed(report, started), reranked=len(read))
        return _kept(done, ordered, top_k, RejectReason.RERANKER)

    def _failed(self, error: Exception) -> str:
        self._backoff.failed()
        self._last = f"it failed with {type(error).__name__}: {error}"
        _LOG.warning("%s leaves the hits as the search ranked them: %s", self._name, self._last)
        return f"{self._name}: {self._last}"


def open_rerank_stage(
    config: RerankerConfig, *, store: str, base_dir: Path, clock: Callable[[], float]
) -> RerankStage | None:
    """Open the rerank stage of a store's block; None when the block names no reranker.

    Raises:
        RerankerError: it cannot be opened; names the store.
        MissingExtraError: a package that it needs is not installed.
    """
    place = f"memory store {store!r}: retrieval.reranker"
    try:
        reranker = open_reranker(config, base_dir)
    except MissingExtraError as error:
        feature = f"{place}: {error.feature}"
        raise MissingExtraError(feature=feature, package=error.package, extra=error.extra) from error
    except DevmemError as error:
        raise RerankerError(f"{place}: {error}") from error
    except Exception as error:  # a plugin's module or factory may raise anything
        raise RerankerError(f"{place}: {config.type!r} cannot be opened: {type(error).__name__}: {error}") from error
    return RerankStage(reranker, config, store=store, clock=clock) if reranker is not None else None


def _timed(report: SearchReport, started: float) -> SearchReport:
    """Add the duration of the stage; `started` is a reading of `time.perf_counter`."""
    return replace(report, stage_ms={**report.stage_ms, "reranker": 1000 * (time.perf_counter() - started)})


def _checked(scores: Iterable[object], count: int) -> list[float]:
    """Return the scores as plain floats.

    Raises:
        RerankerError: they are not as many as the texts, or one is not a finite number.
    """
    given = list(scores)
    if len(given) != count:
        raise RerankerError(f"{len(given)} scores for {count} texts")
    # Numbers of numpy and torch are no `int` or `float`, but can be made one; a text is none.
    numbers = [float(score) if isinstance(score, SupportsFloat) else math.nan for score in given]
    for score, number in zip(given, numbers, strict=True):
        if not math.isfinite(number):
            raise RerankerError(f"the score {score!r} is not a finite number")
    return numbers


def _below(floor: float, hits: Sequence[Hit]) -> list[Hit]:
    """Shift the scores of hits, best first, below a floor and keep their distances."""
    top = max((hit.score for hit in hits), default=0.0)
    return [replace(hit, score=floor - (top - hit.score)) for hit in hits]


def _kept(report: SearchReport, ordered: Sequence[Hit], top_k: int, reason: RejectReason) -> SearchReport:
    """Keep the first hits and report the others as cut, with the reason."""
    cut = [
        RejectedCandidate(item_id=hit.item.id, reason=reason, score=hit.score, similarity=hit.similarity)
        for hit in ordered[top_k:]
    ]
    return replace(report, hits=tuple(ordered[:top_k]), cut=(*cut, *report.cut))
