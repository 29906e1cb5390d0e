"""A store with a reranker: which hits it reads, their order, and the effect of a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from devmem import MemoryContentSnapshot, MemoryItem, SearchReport
from devmem.config import RerankerConfig
from devmem.errors import MissingExtraError, RerankerError
from devmem.model.results import RejectReason
from devmem.models import register_reranker
from devmem.stores import MemoryQuery
from devmem.testing import HashTokenEmbedder, ManualClock
from devmem_stores.simple import SimpleMemory
from tests.conftest import MakeStore

TEA = MemoryQuery(text="tea", limit=2)
NOTES = ("Tea is hot.", "Tea is made of leaves that were dried.", "Tea: see shelf four.")


def lengths(texts: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in texts]


@dataclass
class Scripted:
    """Scores by the function that a test gives it; notes how many texts it read."""

    score: Callable[[Sequence[str]], Any] = lengths
    read: list[int] = field(default_factory=list)

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        assert query
        self.read.append(len(texts))
        found: list[float] = self.score(texts)
        return found


_made: list[Scripted] = []


def scripted(_config: RerankerConfig, _base_dir: Path) -> Scripted:
    _made.append(Scripted())
    return _made[-1]


def unmakeable(_config: RerankerConfig, _base_dir: Path) -> Scripted:
    raise KeyError("endpoint")


def uninstalled(_config: RerankerConfig, _base_dir: Path) -> Scripted:
    raise MissingExtraError(feature="this", package="other", extra="more")


class Make(Protocol):
    def __call__(self, texts: Iterable[str] = NOTES, **block: Any) -> tuple[SimpleMemory, Scripted]: ...


@pytest.fixture
def make(clock: ManualClock, make_store: MakeStore) -> Iterator[Make]:
    """Make a store with texts in it, and the reranker that it asks."""
    register_reranker("test_scripted", scripted)
    register_reranker("test_unmakeable", unmakeable)
    register_reranker("test_uninstalled", uninstalled)

    def making(texts: Iterable[str] = NOTES, **block: Any) -> tuple[SimpleMemory, Scripted]:
        reranker = {"type": "test_scripted", **block}
        store = make_store(SimpleMemory, embedder=HashTokenEmbedder(), retrieval={"reranker": reranker})
        # All at the same time: no order is due to it.
        items = [
            MemoryItem(id=str(at), content_summary=text, created_at=clock.now, event_time=clock.now)
            for at, text in enumerate(texts)
        ]
        store.add(items)
        return store, _made[-1] if _made else Scripted()

    yield making
    _made.clear()


def many(count: int) -> list[str]:
    return [f"tea number {at}" for at in range(count)]


def ids(report: SearchReport) -> list[str]:
    return [hit.item.id for hit in report.hits]


def test_hits_come_in_the_order_of_the_reranker(make: Make) -> None:
    store, _ = make()
    hits = store.search(TEA)
    assert [(hit.item.id, hit.score, hit.rerank) for hit in hits] == [("1", 38.0, 38.0), ("2", 20.0, 20.0)]


def test_explaining_says_what_the_search_and_the_reranker_did(make: Make) -> None:
    store, _ = make()
    plain, _ = make(type="late_interaction")
    report = store.search(replace(TEA, explain=True))
    assert ids(report) == ["1", "2"]
    known = {hit.item.id: hit.parts for hit in plain.search(MemoryQuery(text="tea"))}
    assert {hit.item.id: hit.parts for hit in report.hits} == {key: known[key] for key in ("1", "2")}
    (cut,) = report.cut
    assert (cut.item_id, cut.reason, cut.score) == ("0", RejectReason.RERANKER, 11.0)
    assert report.stage_ms["reranker"] >= 0
    assert list(report.stage_ms)[-1] == "reranker"
    assert (report.reranked, report.failure) == (3, "")


@pytest.mark.parametrize(("top_k", "depth"), [(3, 20), (20, 20), (30, 20), (30, 1)])
def test_it_reads_so_many_hits_and_no_more(make: Make, top_k: int, depth: int) -> None:
    store, reranker = make(many(40), depth=depth)
    plain, _ = make(many(40), type="late_interaction")
    asked = MemoryQuery(text="tea", limit=top_k)
    hits = store.search(asked).hits
    assert reranker.read == [depth]
    assert len(hits) == top_k
    unread = [hit.item.id for hit in plain.search(asked).hits[depth:]]
    assert [hit.item.id for hit in hits[depth:]] == unread
    assert [hit.score for hit in hits] == sorted([hit.score for hit in hits], reverse=True)


def refused(_texts: Sequence[str]) -> None:
    raise RerankerError("no scores today")


def buggy(_texts: Sequence[str]) -> None:
    raise ZeroDivisionError("division by zero")


def missing(_texts: Sequence[str]) -> None:
    raise MissingExtraError(feature="this", package="other", extra="more")


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (refused, "RerankerError: no scores today"),
        (buggy, "ZeroDivisionError: division by zero"),
        (missing, "MissingExtraError: this needs the package 'other'"),
        (lambda texts: lengths(texts)[1:], "RerankerError: 2 scores for 3 texts"),
        (lambda _: [1.0, float("nan"), 2.0], "RerankerError: the score nan is not a finite number"),
        (lambda _: [1.0, float("inf"), 2.0], "RerankerError: the score inf is not a finite number"),
        (lambda _: ["7", "8", "9"], "RerankerError: the score '7' is not a finite number"),
        (lambda _: None, "TypeError: "),
    ],
)
def test_a_reranker_that_fails_costs_only_its_opinion(
    make: Make, caplog: pytest.LogCaptureFixture, score: Callable[[Sequence[str]], Any], told: str
) -> None:
    store, reranker = make()
    plain, _ = make(type="late_interaction")
    reranker.score = score
    report, untouched = store.search(replace(TEA, explain=True)), plain.search(replace(TEA, explain=True))
    assert [(hit.item.id, hit.score) for hit in report.hits] == [(hit.item.id, hit.score) for hit in untouched.hits]
    assert [cut.reason for cut in report.cut] == [RejectReason.LIMIT]
    assert report.failure.startswith(f"memory store 'notes': the reranker 'test_scripted': it failed with {told}")
    (logged,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "memory store 'notes'" in logged.message
    assert told in logged.message


def test_a_reranker_that_failed_backs_off_longer_each_time(make: Make, clock: ManualClock) -> None:
    store, reranker = make()
    reranker.score = refused
    for pause in (5, 10, 20, 40, 80, 120, 120):
        before = len(reranker.read)
        store.search(TEA)
        clock.advance(pause - 0.5)
        told = store.search(replace(TEA, explain=True)).failure
        assert len(reranker.read) == before + 1
        assert "backs off for another 1 s" in told
        assert "no scores today" in told
        clock.advance(0.5)
    reranker.score = lengths
    assert ids(store.search(replace(TEA, explain=True))) == ["1", "2"]
    reranker.score = refused
    store.search(TEA)
    clock.advance(5)
    reranker.score = lengths
    assert ids(store.search(replace(TEA, explain=True))) == ["1", "2"]


def test_a_reranker_that_cannot_be_opened_is_named_with_its_store(make: Make) -> None:
    with pytest.raises(RerankerError, match=r"^memory store 'notes': retrieval\.reranker: unknown reranker 'nothing'"):
        make(type="nothing")
    with pytest.raises(
        RerankerError,
        match=r"^memory store 'notes': retrieval\.reranker: reranker 'test_unmakeable' .*: KeyError: 'endpoint'$",
    ):
        make(type="test_unmakeable")
    with pytest.raises(MissingExtraError, match=r"^memory store 'notes': retrieval\.reranker: this needs the package"):
        make(type="test_uninstalled")


def test_of_a_long_item_it_reads_the_passage_that_was_found(make: Make) -> None:
    whole = " ".join(f"Part {n} of the report is about taxes and rain." for n in range(60)) + " At last tea is served."
    store, reranker = make([])
    snapshot = MemoryContentSnapshot(text=whole)
    store.add([MemoryItem(content_summary=f"{whole[:200]}…", input_snapshot=snapshot)])
    seen: list[str] = []

    def noted(texts: Sequence[str]) -> list[float]:
        seen.extend(texts)
        return lengths(texts)

    reranker.score = noted
    (hit,) = store.search(TEA)
    assert seen == [hit.passage]
    assert seen[0].endswith("At last tea is served.")
