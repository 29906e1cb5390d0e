"""Brain stores in a test's folder, and Redis servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem.stores import ChatModel, StoreSetup
from devmem.testing import HashEmbedder, ManualClock
from devmem_stores.brain import BrainConfig, BrainMemory

from .redis_server import RedisServer

MakeBrain = Callable[..., BrainMemory]
StartRedis = Callable[..., RedisServer]
LLM = {"provider": "openai", "model": "testing"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_brain(tmp_path: Path, clock: ManualClock) -> Iterator[MakeBrain]:
    """Make a loaded store; with `chat`, that model is its language model. The same `path` is the same memory."""
    made: list[BrainMemory] = []

    def make(*, chat: ChatModel | None = None, path: str | None = "memory.db", **config: Any) -> BrainMemory:
        block = {"memory_path": path, **({"llm": LLM} if chat is not None else {}), **config}
        setup = StoreSetup(
            name="brain",
            store_type="brain",
            config=BrainConfig.model_validate(block),
            base_dir=tmp_path,
            open_embedder=lambda _: HashEmbedder(),
            open_chat=lambda _: chat if chat is not None else pytest.fail("no language model is configured"),
            clock=clock,
            monotonic=clock,
        )
        made.append(BrainMemory(setup))
        made[-1].load()
        return made[-1]

    yield make
    for store in made:
        store.close()


def lose_states(file: Path) -> None:
    """Delete the states of conversations behind devmem's back."""
    with closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute("DELETE FROM states").rowcount > 0


@pytest.fixture
def start_redis(tmp_path: Path) -> Iterator[StartRedis]:
    """Start servers; they are killed when the test is over."""
    started: list[RedisServer] = []

    def start(*, password: str | None = None) -> RedisServer:
        started.append(RedisServer(tmp_path / f"redis{len(started)}", password=password))
        started[-1].start()
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def redis_server(start_redis: StartRedis) -> RedisServer:
    return start_redis()
