"""Brain stores in a test's folder, and Redis servers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmem.stores import ChatModel
from devmem_stores.brain import BrainMemory
from tests.conftest import MakeStore

from .redis_server import RedisServer

MakeBrain = Callable[..., BrainMemory]
StartRedis = Callable[..., RedisServer]
LLM = {"provider": "openai", "model": "testing"}


@pytest.fixture
def make_brain(make_store: MakeStore) -> MakeBrain:
    """Open stores; with `chat`, that model is their language model. The same `path` is the same memory."""

    def make(*, chat: ChatModel | None = None, path: str | None = "memory.db", **config: Any) -> BrainMemory:
        block = {"memory_path": path, **({"llm": LLM} if chat is not None else {}), **config}
        return make_store(BrainMemory, name="brain", chat=chat, **block)

    return make


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
