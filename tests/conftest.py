"""Fixtures that tests of every package use."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from devmem import MemoryBase
from devmem.stores import ChatModel, Embedder, StoreSetup, open_chat
from devmem.testing import HashEmbedder, ManualClock
from tests.generated import examples
from tests.models.service import ChatService
from tests.processes import ForkServer, Script
from tools.postgres_server import GivenServer, PostgresServer

pytest.register_assert_rewrite("tests.collection_suite")

StartScript = Callable[..., Script]
Store = TypeVar("Store", bound=MemoryBase)


class MakeStore(Protocol):
    """Open a store of a class from its `config:` block; with `embedder` or `chat`, that is its model."""

    def __call__(
        self,
        kind: type[Store],
        *,
        name: str = "notes",
        folder: Path | None = None,
        session: Path | None = None,
        embedder: Embedder | None = None,
        chat: ChatModel | None = None,
        rules: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> Store: ...


# Times are read and shown in the local zone.
os.environ["TZ"] = "UTC"
time.tzset()

# No deadline: the machine may be busy. The same examples each time: a failure is reproduced by running again.
settings.register_profile(
    "devmem", deadline=None, derandomize=True, max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("devmem")


@pytest.fixture(scope="session")
def _fork_server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def start_script(_fork_server: ForkServer) -> Iterator[StartScript]:
    """Start a script, a file or a text, that imports what this process can; it is killed when the test is over."""
    started: list[Script] = []

    def start(script: Path | str, *arguments: object) -> Script:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONWARNINGS": "error"}
        given = [str(argument) for argument in arguments]
        if sys.platform == "linux":
            process = _fork_server.start(script, given, environment)
        else:
            command = [sys.executable, *(["-c", script] if isinstance(script, str) else [str(script)]), *given]
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the machine's time zone until the test is over."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_store(tmp_path: Path, clock: ManualClock) -> Iterator[MakeStore]:
    """Open stores whose relative paths start in the test's folder; they are closed when the test is over."""
    made: list[MemoryBase] = []

    def make(
        kind: type[Store],
        *,
        name: str = "notes",
        folder: Path | None = None,
        session: Path | None = None,
        embedder: Embedder | None = None,
        chat: ChatModel | None = None,
        rules: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> Store:
        if embedder is not None:
            config.setdefault("embedding", {"provider": "openai", "model": "testing"})
        setup = StoreSetup(
            name=name,
            store_type=kind.__module__.split(".")[1],
            config=kind.config_model.model_validate(config),
            base_dir=folder or tmp_path,
            session_dir=session,
            open_embedder=lambda _: embedder or HashEmbedder(),
            open_chat=lambda block: chat or open_chat(block),
            clock=clock,
            monotonic=clock,
        )
        store = kind(setup, **(rules or {}))
        made.append(store)
        store.load()
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatService]:
    """A service of models on the loopback address, which answers as the test says."""
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatService() as running:
        yield running


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer | GivenServer]:
    """A PostgreSQL server that is there for the whole run of a worker, or the one whose URL is in CITUS_URL."""
    if url := os.environ.get("CITUS_URL"):
        yield GivenServer(url)
        return
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture(scope="session", autouse=True)
def _cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is cached for a user apart from that of the one who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


_MOST_RESIDENT: Final = 400 << 20
"""Bytes of memory that a test worker may have before what its tests have freed is given back to the system."""


@pytest.fixture(scope="module", autouse=True)
def _freed_memory() -> Iterator[None]:
    """Have the allocator give back what a module's tests have freed.

    glibc keeps it, some 300 MB after each model that onnxruntime ran: workers grew to 2 GB, most of it free.
    """
    yield
    if not sys.platform.startswith("linux"):
        return
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    if resident > _MOST_RESIDENT and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        gc.collect()
        trim(0)


@pytest.fixture(scope="session", autouse=True)
def _built_once() -> Iterator[None]:
    """Build the commands of a command line once: typer's runner does it for each call, a quarter of a call's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(typer.main.get_command))
        yield


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the collector of garbage away from ten thousand tests, which all live until the end.

    It would look through them again and again, a third of the time that collecting the tests takes, and whenever a
    test collects garbage. While the tests run it starts a hundred times less often than Python's default has it.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)
        gc.enable()


_SHARED_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 3 << 30
"""Bytes that must be free there; a run takes a fraction of it, as the folders of passed tests are removed."""


def _has_room_in_memory() -> bool:
    """Whether files of tests can be kept and executed in shared memory; containers often have little of it."""
    if not os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(_SHARED_MEMORY)
    return system.f_bavail * system.f_frsize >= _ROOM and not system.f_flag & os.ST_NOEXEC


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Keep the folders of tests in memory, and let the processes that tests start be interrupted.

    Every commit waits for a disk, and no test can tell what it wrote from what the system still had in memory.
    `--basetemp` and PYTEST_DEBUG_TEMPROOT choose another place.

    A shell starts background jobs with SIGINT ignored, which children inherit.
    """
    if config.option.basetemp is None and sys.platform == "linux" and _has_room_in_memory():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_SHARED_MEMORY))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
