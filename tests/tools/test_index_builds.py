"""Waiting for indexes that are built in the background, beside other threads of the process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tools.bench import index_builds
from tools.bench.index_builds import IndexBuilds


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_builds, "_LONGEST", 0.0)


@pytest.fixture
def done() -> Iterator[threading.Event]:
    """Ends the threads of the test."""
    event = threading.Event()
    yield event
    event.set()


def thread(name: str, done: threading.Event) -> threading.Thread:
    started = threading.Thread(target=done.wait, name=name, daemon=True)
    started.start()
    return started


def test_threads_of_others_are_not_waited_for(done: threading.Event) -> None:
    """Neither builds of collections that were open before, nor threads that build nothing."""
    thread("devmem-index_0", done)
    builds = IndexBuilds()
    thread("pooler", done)
    builds.settle(lambda: None)


def test_it_searches_until_the_build_is_taken_over(monkeypatch: pytest.MonkeyPatch, done: threading.Event) -> None:
    monkeypatch.setattr(index_builds, "_LONGEST", 60.0)
    builds, searches = IndexBuilds(), []
    build = thread("devmem-index_0", done)

    def search() -> None:
        searches.append(build.is_alive())
        if len(searches) == 3:
            done.set()
            build.join()

    builds.settle(search)
    assert searches == [True] * 3


def test_a_build_that_is_stuck_is_an_error(done: threading.Event) -> None:
    builds = IndexBuilds()
    thread("devmem-index_0", done)
    with pytest.raises(RuntimeError, match="still being built"):
        builds.settle(lambda: None)
