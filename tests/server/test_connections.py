"""Connections of the server over HTTP: kept ones are fast, and those without a request do not stay."""

from __future__ import annotations

import http.client
import resource
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
import uvicorn

from devmem.server import checked_address
from devmem.server.connections import http_config


async def _answer(scope: dict[str, object], receive: object, send: object) -> None:
    assert callable(send)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"o", "more_body": True})
    await send({"type": "http.response.body", "body": b"k"})


@contextmanager
def serving(header_seconds: float = 30.0, config: uvicorn.Config | None = None) -> Iterator[int]:
    config = config or http_config(_answer, header_seconds=header_seconds, lifespan="off")
    with checked_address("127.0.0.1", 0) as bound:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield bound.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def client(port: int) -> closing[http.client.HTTPConnection]:
    return closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30))


def ask(connection: http.client.HTTPConnection) -> float:
    begun = time.perf_counter()
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"ok"
    return time.perf_counter() - begun


def test_a_kept_connection_is_not_slower_than_new_ones() -> None:
    """An answer in several packets must not wait for the client's delayed acknowledgement, which takes 40 ms."""
    with serving() as port, client(port) as kept:
        new = []
        for _ in range(40):
            with client(port) as connection:
                new.append(ask(connection))
        ask(kept)
        assert statistics.median(ask(kept) for _ in range(40)) < 3 * statistics.median(new)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_a_connection_without_a_request_is_closed(sent: bytes) -> None:
    with serving(header_seconds=0.2) as port, socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(sent)
        answer = b""
        while received := connection.recv(4096):
            answer += received
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert answer.endswith(b"the request did not arrive")


def test_half_a_second_request_is_closed() -> None:
    with serving(header_seconds=0.2) as port, client(port) as connection:
        ask(connection)
        assert connection.sock is not None
        connection.sock.sendall(b"GET / HT")
        assert connection.sock.recv(4096).startswith(b"HTTP/1.1 408 ")


def test_waiting_connections_make_room_for_requests() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The clients' ends are in this process, too: only the server's share is computed with the lower limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        config = http_config(_answer, lifespan="off")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert config.backlog == 64
    with serving(config=config) as port, ExitStack() as waiting:
        opened = [waiting.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(300)]
        with client(port) as connection:
            ask(connection)
        assert opened[0].recv(4096).startswith(b"HTTP/1.1 408 ")
        opened[-1].sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert opened[-1].recv(4096).startswith(b"HTTP/1.1 200 ")
