"""A server of a team's memory on a real port, with the tokens of its users."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import devmem
from devmem.adapters.mcp import ServerOptions, make_server
from devmem.adapters.mcp.server import KEEP_ALIVE, http_app
from devmem.server import Allowances, Limits, TokenFile, checked_address
from devmem.testing import ManualClock


@dataclass
class Team:
    """A memory, its server and the tokens of its users."""

    memory: devmem.Memory
    tokens: TokenFile
    clock: ManualClock
    url: str = ""
    secrets: dict[str, str] = field(default_factory=dict)

    def header(self, user: str) -> dict[str, str]:
        """Return the header of a user, whose token is made when it is first used."""
        if user not in self.secrets:
            self.secrets[user] = self.tokens.add(user, user=user)
        return {"authorization": f"Bearer {self.secrets[user]}"}

    @asynccontextmanager
    async def mcp(self, user: str, **options: Any) -> AsyncIterator[Client]:
        """Connect the protocol's own client with a user's token."""
        async with (
            httpx2.AsyncClient(headers=self.header(user), timeout=60) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http), **options) as client,
        ):
            yield client

    def request(self, method: str, path: str, *, user: str | None = None, **arguments: Any) -> httpx.Response:
        """Send a request as any program does."""
        headers = {**(self.header(user) if user else {}), **arguments.pop("headers", {})}
        return httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **arguments)


@contextmanager
def serving(app: Any, port_holder: Any) -> Iterator[None]:
    """Serve an application in a thread."""
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, timeout_keep_alive=KEEP_ALIVE)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [port_holder]})
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def serving_team(
    folder: Path,
    options: ServerOptions | None = None,
    limits: Limits | None = None,
    embedding: Any = None,
    memory: devmem.Memory | None = None,
) -> Iterator[Team]:
    """Serve a new memory, or another one, to users with tokens."""
    clock = ManualClock()
    tokens = TokenFile(folder / "tokens.json", clock=clock)
    if memory is None:
        memory = devmem.open(folder / "team.db", embedding=embedding)
    with memory, checked_address("127.0.0.1", 0) as bound:
        team = Team(memory, tokens, clock, f"http://127.0.0.1:{bound.getsockname()[1]}")
        team.header("ann")
        with serving(http_app(make_server(memory, options, tokens=tokens), allowances=Allowances(limits)), bound):
            yield team


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with serving_team(tmp_path) as team:
        yield team
