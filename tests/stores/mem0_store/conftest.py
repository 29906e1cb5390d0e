"""mem0 stores, a server for them, and a guard that refuses every other connection."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devmem.errors import Mem0Error
from devmem.stores import StoreSetup
from devmem.testing import ManualClock
from devmem_stores.mem0 import Mem0Config, Mem0Memory

from .fake_mem0 import KEY, FakeMem0

MakeStore = Callable[..., Mem0Memory]
SetupFor = Callable[..., StoreSetup]


@contextmanager
def mem0_error(kind: str, *, match: str | None = None) -> Iterator[pytest.ExceptionInfo[Mem0Error]]:
    """Expect an error of mem0 of a kind."""
    with pytest.raises(Mem0Error, match=match) as caught:
        yield caught
    assert caught.value.kind == kind


@pytest.fixture
def sleeps() -> list[float]:
    """The pauses that the store made; no time passes in them."""
    return []


class Allowed:
    """The addresses that may be connected to, and the attempts to reach others."""

    def __init__(self) -> None:
        self.ports: set[int] = set()
        self.refused: list[object] = []


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Allowed]:
    """Refuse every connection and every look-up of a name but those of the test's own servers."""
    allowed = Allowed()
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def guarded_connect(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and (address[0] != "127.0.0.1" or address[1] not in allowed.ports):
            allowed.refused.append(address)
            raise ConnectionRefusedError(f"the test refuses {address}")
        connect(self, address)

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        if host not in ("127.0.0.1", None):
            allowed.refused.append(host)
            raise socket.gaierror(f"the test refuses {host}")
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    yield allowed
    assert not allowed.refused, f"connections to strangers: {allowed.refused}"


@pytest.fixture
def fake(network: Allowed) -> Iterator[FakeMem0]:
    with FakeMem0() as server:
        network.ports.add(server.port)
        yield server


@pytest.fixture
def setup_for(tmp_path: Path, clock: ManualClock) -> SetupFor:
    """Make a setup from a `config:` block; the session's files are in the test's folder."""

    def make(**config: Any) -> StoreSetup:
        return StoreSetup(
            name="notes",
            store_type="mem0",
            config=Mem0Config.model_validate(config),
            base_dir=tmp_path,
            session_dir=tmp_path / "session",
            clock=clock,
            monotonic=clock,
        )

    return make


@pytest.fixture
def make_store(setup_for: SetupFor, fake: FakeMem0, sleeps: list[float]) -> Iterator[MakeStore]:
    """Make a store that talks to the server; it belongs to the user `ann` unless it is told otherwise."""
    made: list[Mem0Memory] = []

    def make(**config: Any) -> Mem0Memory:
        ids = {} if {"user_id", "agent_id", "run_id", "nobody"} & config.keys() else {"user_id": "ann"}
        config.pop("nobody", None)
        defaults = {"api_key": KEY, "host": fake.address, "timeout": 5.0}
        store = Mem0Memory(setup_for(**{**defaults, **ids, **config}), sleep=sleeps.append)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: MakeStore) -> Mem0Memory:
    return make_store()
