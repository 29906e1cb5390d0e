"""A server over HTTP: where it may be reached, by which pages, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import devmem
from devmem.adapters.mcp import make_server
from devmem.adapters.mcp.server import http_app
from tests.cli.conftest import Devmem
from tests.cli.conftest import devmem as run_devmem

devmem_command = run_devmem
HALF_A_REQUEST = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


def preflight(memory: devmem.Memory, origin: str) -> tuple[int, str | None]:
    client = TestClient(http_app(make_server(memory)), base_url="http://127.0.0.1:8000")
    headers = {"origin": origin, "access-control-request-method": "POST"}
    answer = client.options("/mcp", headers={**headers, "access-control-request-headers": "mcp-session-id"})
    return answer.status_code, answer.headers.get("access-control-allow-origin")


@pytest.mark.parametrize("origin", ["http://localhost:5173", "http://127.0.0.1", "http://[::1]:8080"])
def test_a_page_of_this_machine_may_ask(memory: devmem.Memory, origin: str) -> None:
    assert preflight(memory, origin) == (200, origin)


@pytest.mark.parametrize(
    "origin", ["https://example.org", "http://localhost.example.org", "http://127.0.0.1.example.org"]
)
def test_a_page_of_another_origin_may_not(memory: devmem.Memory, origin: str) -> None:
    assert preflight(memory, origin) == (400, None)


def test_what_cannot_be_served_is_not_announced(devmem_command: Devmem, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for address, words in (("0.0.0.0:8000", "proxy"), (str(port), "cannot listen")):
            output = devmem_command("mcp", tmp_path / "notes.db", "--http", address, code=2).output
            assert words in output
            assert "serving" not in output


@contextmanager
def serving(file: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve a file until the process is stopped; yield when it is announced."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "devmem", "mcp", str(file), "--http", str(port)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            assert next(line for line in process.stderr if "serving" in line)
            yield process, port
        finally:
            process.kill()


@pytest.mark.slow
def test_a_server_ends_beside_requests_that_never_do(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    devmem.open(file, embedding=None).close()
    with serving(file) as (process, port), ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(HALF_A_REQUEST)
        # The half requests are with the server when it has answered a whole one.
        whole = HTTPConnection("127.0.0.1", port)
        whole.request("GET", "/nothing")
        assert whole.getresponse().status == 404
        whole.close()
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=30)
    assert "Traceback" not in said
