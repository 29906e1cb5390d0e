"""Several processes behind one port: what a token may do holds over all of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem.server import TokenFile
from tests.cli.conftest import Devmem
from tests.cli.conftest import devmem as run_devmem

devmem_command = run_devmem
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[int, int]]:
    """Serve a file by two workers; yield the process and the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    tokens = ["--tokens", str(folder / "tokens.json")]
    command = [sys.executable, "-m", "devmem", "mcp", "notes.db", "--http", str(port), "--workers", "2"]
    with subprocess.Popen([*command, *tokens, *options], cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        for line in server.stderr:
            if "serving" in line:
                break
        try:
            # A worker that answers has been forked with the other one.
            assert ask(port, "unknown") == 401
            yield server.pid, port
        finally:
            server.terminate()
            server.wait(30)


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def ask(port: int, token: str, path: str = "/v1/memories", body: str | None = None) -> int:
    """Return the status of a request on a connection of its own."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def ask_worker(port: int, token: str, wanted: int, others: list[int]) -> int:
    """Return the status of a request that a worker answers while the others are stopped."""
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        return ask(port, token)
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json")


def test_a_memory_that_one_worker_stores_is_found_by_each(tmp_path: Path, tokens: TokenFile) -> None:
    secret = tokens.add("ann", user="ann")
    with serving(tmp_path) as (pid, port):
        for n in range(20):
            assert ask(port, secret, body=f'{{"memories": [{{"text": "note {n}"}}]}}') == 201
        one, other = children(pid)
        assert ask_worker(port, secret, one, [other]) == ask_worker(port, secret, other, [one]) == 200
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        assert len(memory.list(limit=50, user="ann")) == 20


def test_a_rate_is_one_for_all_workers(tmp_path: Path, tokens: TokenFile) -> None:
    secrets = {name: tokens.add(name, user=name) for name in ("ann", "ben")}
    with serving(tmp_path, "--rate", "20") as (pid, port):
        one, other = children(pid)
        found: Counter[Any] = Counter()
        for n in range(36):
            worker, rest = (one, other) if n % 2 else (other, one)
            found[ask_worker(port, secrets["ann"], worker, [rest])] += 1
        assert found[429] >= 10
        assert found[200] + found[429] == 36
        assert ask(port, secrets["ben"]) == 200


def test_a_token_that_is_revoked_is_refused_by_each_worker(tmp_path: Path, tokens: TokenFile) -> None:
    secret = tokens.add("ann", user="ann")
    with serving(tmp_path) as (pid, port):
        one, other = children(pid)
        workers = ((one, other), (other, one))
        assert [ask_worker(port, secret, worker, [rest]) for worker, rest in workers] == [200, 200]
        tokens.revoke("ann")
        assert [ask_worker(port, secret, worker, [rest]) for worker, rest in workers] == [401, 401]


def test_a_worker_that_dies_is_replaced_and_all_end_with_the_server(tmp_path: Path, tokens: TokenFile) -> None:
    secret = tokens.add("ann", user="ann")
    with serving(tmp_path) as (pid, port):
        before = children(pid)
        assert ask(port, secret) == 200
        os.kill(before[0], signal.SIGKILL)
        while len(now := children(pid)) < 2 or before[0] in now:
            pass
        (new,) = set(now) - set(before)
        assert ask_worker(port, secret, new, [before[1]]) == 200
    for worker in now:
        with suppress(ProcessLookupError):
            os.kill(worker, 0)
            pytest.fail("a worker is left")
    with pytest.raises(ConnectionRefusedError):
        ask(port, secret)


def test_workers_need_a_place_that_they_have_in_common(devmem_command: Devmem, tmp_path: Path) -> None:
    assert "--http" in devmem_command("mcp", tmp_path / "notes.db", "--workers", "2", code=2).output
