"""Stores of the same texts, one a case, asked in turns: what a search takes, and what an item takes on the disk."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from devmem import MemoryBase, MemoryItem
from devmem.config import EmbeddingConfig, RetrievalConfig
from devmem.models import TokenEmbedder
from devmem.models.embedder import CombinedEmbedder
from devmem.stores import QueryEmbedding
from tools.bench.providers.cases import BASE
from tools.bench.retrieval.dataset import Dataset
from tools.bench.retrieval.memo import EmbeddingMemo
from tools.bench.retrieval.variants import Variant
from tools.bench.rows import Row

QUESTIONS: Final = 200
_TOP_K: Final = 10
_AT_ONCE: Final = 500
_BATCH: Final = 64
"""Number of texts whose embedding is timed."""
_MISSES: Final = 10_000
"""Number of known texts in a row after which no new one is expected."""
_ROUNDS: Final = 3
"""The shortest of a question's rounds counts: other programs lengthen a time and never shorten it."""


def texts_of(datasets: Sequence[Dataset], count: int) -> list[str]:
    """Return different texts: the data sets' turns, then first halves of some of them with second halves of others.

    Raises:
        ValueError: the data sets have too few turns.
    """
    turns = list(
        dict.fromkeys(item.content_summary for one in datasets for each in one.haystacks for item in each.items)
    )
    found = dict.fromkeys(turns[:count])
    words = [turn.split() for turn in turns]
    rng, misses = np.random.default_rng(1), 0
    while len(found) < count:
        if not turns or misses > _MISSES:
            raise ValueError(f"{len(turns):,} turns are too few to make texts of {count:,} items: name more data sets")
        first, second = (words[at] for at in rng.integers(0, len(turns), 2))
        text = " ".join((*first[: len(first) // 2], *second[len(second) // 2 :]))
        is_new = bool(text) and text not in found
        misses = 0 if is_new else misses + 1
        if is_new:
            found[text] = None
    return list(found)


def questions_of(datasets: Sequence[Dataset]) -> list[str]:
    """Return questions of all data sets, evenly taken."""
    every = [question.text for one in datasets for each in one.haystacks for question in each.questions]
    return every[:: max(len(every) // QUESTIONS, 1)][:QUESTIONS]


def measure_speed(
    variants: Sequence[Variant],
    texts: Sequence[str],
    questions: Sequence[str],
    folder: Path,
    advance: Callable[[int], None],
) -> Iterator[Row]:
    """Fill a store for each case, then ask all of them each question, in turns.

    Args:
        variants: the cases, that of `BASE` among them.
        texts: an item each.
        questions: whose embeddings are made before they are asked.
        folder: takes the stores.
        advance: called with the number of steps done since the last call; a text and a question a case are one each.
    """
    memo = EmbeddingMemo()
    with ExitStack() as opened:
        stores = {}
        for number, variant in enumerate(variants):
            place = folder / str(number)
            place.mkdir()
            stores[variant.name] = opened.enter_context(variant.opened(place, memo))
            _fill(stores[variant.name], texts, advance)
            yield _row(variant.name, "embed_per_s", _embedded_per_second(variant, texts[:_BATCH], memo), "1/s")
        searches, queries = _ask(variants, stores, questions, memo, advance)
    for number, variant in enumerate(variants):
        size = sum(file.stat().st_size for file in (folder / str(number)).glob("bench.db*"))
        ratios = [own / base for own, base in zip(searches[variant.name], searches[BASE], strict=True)]
        yield _row(variant.name, "search_p50", median(searches[variant.name]), "ms")
        yield _row(variant.name, f"search_to_{BASE}", median(ratios), "ratio")
        yield _row(variant.name, "query_p50", median(queries[variant.name]), "ms")
        yield _row(variant.name, "disk_bytes_per_item", size / len(texts), "bytes")


def _fill(store: MemoryBase, texts: Sequence[str], advance: Callable[[int], None]) -> None:
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        store.add([MemoryItem(content_summary=text) for text in some])
        advance(len(some))


def _embedded_per_second(variant: Variant, texts: Sequence[str], memo: EmbeddingMemo) -> float:
    """Return how many texts the models of a case embed in a second, as a store has them embedded."""
    embedder = memo.open(EmbeddingConfig.model_validate(variant.config["embedding"]))
    retrieval = RetrievalConfig.model_validate(variant.config.get("retrieval", {}))
    if retrieval.tokens is not None:
        embedder = CombinedEmbedder(embedder, memo.open(retrieval.tokens))
    embed: Callable[[Sequence[str]], object] = embedder.embed
    if isinstance(embedder, TokenEmbedder) and retrieval.late_interaction:
        embed = embedder.embed_tokens
    with memo.set_aside():
        return len(texts) / min(_milliseconds(lambda: embed(texts)) for _ in range(_ROUNDS)) * 1000


def _ask(
    variants: Sequence[Variant],
    stores: Mapping[str, MemoryBase],
    questions: Sequence[str],
    memo: EmbeddingMemo,
    advance: Callable[[int], None],
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the milliseconds of each question by case: of a search whose embedding is known, and with it."""
    searches: dict[str, list[float]] = defaultdict(list)
    queries: dict[str, list[float]] = defaultdict(list)
    for number, text in enumerate(questions):
        turn = number % len(variants)
        for variant in (*variants[turn:], *variants[:turn]):
            search = partial(stores[variant.name].search, variant.query(QueryEmbedding(text), _TOP_K))
            search()
            with memo.set_aside():
                fresh = variant.query(QueryEmbedding(text), _TOP_K)
                queries[variant.name].append(_milliseconds(partial(stores[variant.name].search, fresh)))
            searches[variant.name].append(min(_milliseconds(search) for _ in range(_ROUNDS)))
            advance(1)
    return searches, queries


def _milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def _row(case: str, metric: str, value: float, unit: str) -> Row:
    return Row(bench="providers", case=case, metric=metric, value=value, unit=unit)
