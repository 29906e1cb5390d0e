"""A page over real stores, served on loopback and asked over HTTP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

import devmem
from devmem import Scope, WorkflowRunner, load_workflow, open_stores
from devmem.web.app import Server, make_app, routes
from devmem.web.desk import Desk
from devmem.web.guard import PageGuard
from devmem.web.pages import Pages

TEAM = """
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db, history: keep}}
record_recalls: true
nodes:
  - id: helper
    type: agent
    config:
      provider: extractive
      memories: [{name: notes, top_k: 3, write: false, retrieve_stage: [gen]}]
"""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is served."""

    address: str
    guard: PageGuard
    folder: Path
    posted: frozenset[str]
    """Addresses that take forms."""

    @contextmanager
    def browser(self) -> Iterator[httpx.Client]:
        """Open a client that has followed the one-time link."""
        with httpx.Client(base_url=self.address, follow_redirects=True, trust_env=False) as client:
            assert client.get("/enter", params={"token": self.guard.link_token}).status_code == 200
            yield client

    def post(self, client: httpx.Client, path: str, **form: str) -> httpx.Response:
        """Send a form of the page."""
        return client.post(path, data={"csrf": self.guard.csrf, **form}, headers={"origin": self.address})


Serve = Callable[..., Page]


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """Write a workflow, and return its file."""
    file = tmp_path / "team.yaml"
    file.write_text(TEAM, encoding="utf-8")
    return file


@pytest.fixture
def serve(team: Path) -> Iterator[Serve]:
    """Return what serves the workflow until the end of the test."""
    with ExitStack() as ended:

        def start(*, user: str | None = None, read_only: bool = False) -> Page:
            workflow = load_workflow(team)
            stores = ended.enter_context(open_stores(workflow))
            listener = ended.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = listener.getsockname()[1]
            desk = Desk(workflow, stores, session="default", user=user, read_only=read_only)
            guard = make_app(desk, host="127.0.0.1", port=port)
            ready = threading.Event()
            server = Server(guard, ready.set)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            ended.callback(thread.join, 10)
            ended.callback(setattr, server, "should_exit", True)
            assert ready.wait(20)
            posted = (route for route in routes(Pages(desk, lambda: guard)) if isinstance(route, Route))
            forms = frozenset(route.path for route in posted if "POST" in (route.methods or ()))
            return Page(f"http://127.0.0.1:{port}", guard, team.parent, forms)

        yield start


def remember(team: Path, text: str, user: str | None = None) -> str:
    """Store a text, and return its id."""
    with devmem.open(f"{team}#notes") as memory:
        return memory.add(text, user=user)


def ask(team: Path, question: str, user: str | None = None) -> None:
    """Run the workflow once."""
    workflow = load_workflow(team)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, scope=Scope(user=user)) as runner:
        runner.run(question)
