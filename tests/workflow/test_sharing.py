"""One embedding a query, many threads on one manager, and an event loop that is not held up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from devmem.stores import Embedder, EmbeddingConfig, StoreSetup, WriteStatus
from devmem.testing import FailingEmbedder, HashEmbedder, ManualClock
from devmem_stores.simple import SimpleConfig, SimpleMemory

from .doubles import ScriptedStore, hit, manager_of, retrieved, said


@contextmanager
def simple(name: str, embedder: Embedder, clock: ManualClock | None = None) -> Iterator[SimpleMemory]:
    """A real store in memory that knows the deadline."""
    clock = clock or ManualClock()
    setup = StoreSetup(
        name=name,
        store_type="simple",
        config=SimpleConfig(embedding=EmbeddingConfig()),
        open_embedder=lambda config: embedder,
        clock=clock,
        monotonic=clock,
    )
    store = SimpleMemory(setup)
    store.load()
    store.update(said(f"When is the {name} deadline?", "The deadline is May 5."))
    yield store
    store.close()


def test_two_stores_and_all_stages_share_one_embedding_of_the_query() -> None:
    embedder = HashEmbedder()
    with simple("one", embedder) as one, simple("two", embedder) as two:
        manager = manager_of(one, two)
        embedder.texts.clear()
        for stage in ("pre", "plan", "gen", "critique"):
            result = retrieved(manager, query="=== INPUT FROM user (user) ===\n\nthe deadline?", current_stage=stage)
            assert {found.store for found in result.hits} == {"one", "two"}
            assert all(found.similarity is not None for found in result.hits)
        assert embedder.texts == ["the deadline?"]


def test_stores_of_two_models_are_asked_with_an_embedding_of_each() -> None:
    embedders = HashEmbedder(16), HashEmbedder(32)
    with simple("one", embedders[0]) as one, simple("two", embedders[1]) as two:
        for embedder in embedders:
            embedder.texts.clear()
        retrieved(manager_of(one, two), query="the deadline?")
        assert [embedder.texts for embedder in embedders] == [["the deadline?"]] * 2


def test_a_provider_that_is_down_costs_similarity_and_not_the_hits(caplog: pytest.LogCaptureFixture) -> None:
    embedder, clock = FailingEmbedder(), ManualClock()
    embedder.recover()
    with simple("one", embedder, clock) as one, simple("two", embedder, clock) as two:
        manager = manager_of(one, two)
        embedder.fail()
        result = retrieved(manager, query="the deadline?")
        assert {found.store for found in result.hits} == {"one", "two"}
        assert [found.similarity for found in result.hits] == [None, None]
        (failure,) = result.failures
        assert str(failure).startswith(f"embedding model {embedder.identity.name!r} could not embed the query: ")
        assert "the embedding provider of this test is down" in caplog.text
        embedder.recover()
        again = retrieved(manager, query="the deadline?")
        assert again.failures == ()
        assert all(found.similarity is not None for found in again.hits)


def test_a_write_while_the_provider_is_down_is_stored_found_and_embedded_later() -> None:
    embedder, clock = FailingEmbedder(), ManualClock()
    embedder.recover()
    with simple("one", embedder, clock) as one:
        manager = manager_of(one)
        embedder.fail()
        (write,) = manager.update(said("Who reviews?", "Bo reviews on Monday.")).writes
        assert (write.outcome.status, write.outcome.waiting) == (WriteStatus.STORED, True)
        found = retrieved(manager, query="Monday reviews")
        assert found.items[0].content_summary.endswith("Bo reviews on Monday.")
        embedder.recover()
        clock.advance(600)
        manager.update(said("Who writes?", "Ann writes on Tuesday."))
        assert one.info().waiting == 0


@pytest.mark.parametrize("name", ["retrieve", "update"])
def test_the_event_loop_goes_on_while_a_store_works(name: str) -> None:
    store, goes_on = ScriptedStore(hits=[hit("tea")]), threading.Event()
    seen: list[bool] = []

    def work() -> None:
        # Only the loop sets it: a loop that is held up here leaves it unset.
        seen.append(goes_on.wait(timeout=30))

    store.before_search = store.before_update = work
    manager = manager_of(store)

    async def both() -> None:
        task = asyncio.create_task(
            manager.aretrieve(query="?") if name == "retrieve" else manager.aupdate(said("a", "b"))
        )
        await asyncio.sleep(0)
        goes_on.set()
        assert await task

    asyncio.run(both())
    assert seen == [True]


THREADS, EACH = 8, 25


def test_eight_threads_on_one_manager_lose_nothing_and_double_nothing() -> None:
    embedder = HashEmbedder()
    with simple("real", embedder) as real:
        double = ScriptedStore("double")
        manager = manager_of(real, double, each={"top_k": 5})
        ready = threading.Barrier(THREADS)

        def work(number: int) -> None:
            ready.wait()
            for turn in range(EACH):
                result = manager.update(
                    said(f"What is fact {number}-{turn}?", f"Fact {number}-{turn} is word{number}x{turn}.")
                )
                assert result.failures == ()
                found = retrieved(manager, query=f"word{number}x{turn}")
                assert found.failures == ()
                assert f"word{number}x{turn}" in found.items[0].content_summary

        with ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(work, number) for number in range(THREADS)]:
                done.result()
        assert real.count() == THREADS * EACH + 1
        written = [payload.inputs_text for payload in double.payloads]
        assert len(set(written)) == len(written) == THREADS * EACH


def test_a_store_that_fails_now_and_then_gets_every_write_of_every_thread_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    store = ScriptedStore()
    manager = manager_of(store, rescue_dir=tmp_path)

    def now_and_then() -> None:
        if store.tried % 3:
            store.failing["update"] = OSError("not now")
        else:
            store.failing.pop("update", None)

    store.before_update = now_and_then

    def work(number: int) -> None:
        for turn in range(EACH):
            manager.update(said(f"{number} {turn}", "x"))

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, number) for number in range(THREADS)]:
            done.result()
    store.before_update = store.failing.clear
    assert manager.close() == []
    written = [payload.inputs_text for payload in store.payloads]
    assert sorted(written) == sorted(f"{number} {turn}" for number in range(THREADS) for turn in range(EACH))
