"""Rerankers: the chat model's grades, plugins, what cannot be opened, and what a store does with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from devmem import MemoryItem, MemoryQuery, StoreSetup
from devmem.config import RerankerConfig, RetrievalConfig
from devmem.errors import ChatModelError, RerankerError
from devmem.reranking import Reranker, open_reranker, register_reranker
from devmem.reranking.by_chat import ChatReranker
from devmem.testing import ScriptedChat
from devmem_stores.simple import SimpleConfig, SimpleMemory

HERE = Path(__file__).parent
NOTES = ("Tea is hot.", "Tea is made of leaves that were dried.", "Tea: see shelf four.")


class Longest:
    """Prefers long texts."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        assert query
        return [float(len(text)) for text in texts]


class Broken:
    """Never answers."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        raise RerankerError(f"no scores for {len(texts)} texts on {query!r}")


read: list[int] = []


class Counting:
    """Notes how many texts it is given."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        read.append(len(texts))
        return [float(len(text)) for text in texts]


def counting(_config: RerankerConfig, _base_dir: Path) -> Reranker:
    return Counting()


def longest(_config: RerankerConfig, _base_dir: Path) -> Reranker:
    return Longest()


def broken(_config: RerankerConfig, _base_dir: Path) -> Reranker:
    return Broken()


def by_chat(*script: str | Exception) -> ChatReranker:
    return ChatReranker(ScriptedChat(*script), RerankerConfig(type="llm"))


def test_the_search_does_some_itself() -> None:
    assert open_reranker(RerankerConfig(), HERE) is None
    assert open_reranker(RerankerConfig(type="none"), HERE) is None


def test_an_unknown_name_is_answered_with_the_near_ones() -> None:
    with pytest.raises(RerankerError, match=r"unknown reranker 'cross_encodr'\. Did you mean 'cross_encoder'\?"):
        open_reranker(RerankerConfig(type="cross_encodr"), HERE)


def test_a_package_offers_its_own() -> None:
    points = [EntryPoint("longest", f"{__name__}:longest", "devmem.rerankers")]
    found = open_reranker(RerankerConfig(type="longest"), HERE, discover=lambda: points)
    assert found is not None
    assert found.scores("q", ["a", "bbb"]) == [1.0, 3.0]


@pytest.mark.parametrize("name", ["llm", "cross_encoder", "none", "late_interaction"])
def test_a_taken_name_is_refused(name: str) -> None:
    with pytest.raises(RerankerError, match="another name"):
        register_reranker(name, longest)


def test_registering_the_same_again_is_no_clash() -> None:
    register_reranker("test_longest", longest)
    register_reranker("test_longest", longest)
    with pytest.raises(RerankerError, match="test_longest"):
        register_reranker("test_longest", broken)


def test_a_chat_model_grades() -> None:
    assert by_chat("1: 3\n2: 10\n3. 0.5").scores("tea?", NOTES) == [3.0, 10.0, 0.5]


def test_what_the_model_passes_over_gets_nothing() -> None:
    assert by_chat("Sure!\n- 2: 7\n9: 9").scores("tea?", NOTES) == [0.0, 7.0, 0.0]


def test_the_model_is_shown_each_note_on_a_line_of_its_own() -> None:
    chat = ScriptedChat("1: 1")
    ChatReranker(chat, RerankerConfig(type="llm")).scores("tea?", ["one\n[2] two: 10", "three"])
    assert chat.asked == ["Question: tea?\n\nNotes:\n[1] one [2] two: 10\n[2] three"]


@pytest.mark.parametrize("script", ["I like them all.", "", "7: 3", ChatModelError("503")])
def test_no_grades_are_an_error(script: str | Exception) -> None:
    with pytest.raises(RerankerError):
        by_chat(script).scores("tea?", NOTES)


def test_nothing_to_grade_asks_nobody() -> None:
    chat = ScriptedChat()
    assert ChatReranker(chat, RerankerConfig(type="llm")).scores("tea?", []) == []
    assert chat.requests == []


def test_a_cross_encoder_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(RerankerError, match="model_path: FOLDER"):
        open_reranker(RerankerConfig(type="cross_encoder"), tmp_path)
    found = open_reranker(RerankerConfig(type="cross_encoder", model_path=Path("nowhere")), tmp_path)
    assert found is not None
    with pytest.raises(RerankerError, match="nowhere"):
        found.scores("q", ["a"])


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[SimpleMemory]:
    register_reranker("test_longest", longest)
    register_reranker("test_broken", broken)
    register_reranker("test_counting", counting)
    retrieval = RetrievalConfig(reranker=RerankerConfig(type=request.param))
    made = SimpleMemory(StoreSetup(name="notes", store_type="simple", config=SimpleConfig(retrieval=retrieval)))
    made.add([MemoryItem(id=str(at), content_summary=text) for at, text in enumerate(NOTES)])
    yield made
    made.close()


@pytest.mark.parametrize("store", ["test_longest"], indirect=True)
def test_a_store_gives_the_order_of_its_reranker(store: SimpleMemory) -> None:
    hits = store.search(MemoryQuery(text="tea", top_k=2))
    assert [(hit.item.id, hit.rerank) for hit in hits] == [("1", 38.0), ("2", 20.0)]
    assert [hit.score for hit in hits] == [38.0, 20.0]
    assert store.explain(MemoryQuery(text="tea", top_k=2)).reranked == 3


@pytest.mark.parametrize("store", ["test_counting"], indirect=True)
def test_for_conversations_it_reads_no_more_than_for_items(store: SimpleMemory) -> None:
    store.add([MemoryItem(id=f"more {at}", content_summary=f"tea number {at}") for at in range(40)])
    read.clear()
    assert len(store.search_conversations(MemoryQuery(text="tea", top_k=3))) == 3
    assert read == [20]


@pytest.mark.parametrize("store", ["test_broken"], indirect=True)
def test_a_reranker_that_fails_costs_only_its_opinion(store: SimpleMemory, caplog: pytest.LogCaptureFixture) -> None:
    report = store.explain(MemoryQuery(text="tea", top_k=2))
    assert len(report.hits) == 2
    assert report.failure == "no scores for 3 texts on 'tea'"
    assert "stay as the search ranked them" in caplog.text
