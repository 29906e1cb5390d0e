"""Services that answer without end, packed, drop by drop, or with another address: bounded in time and memory."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pydantic import SecretStr

import devmem
from devmem.errors import ChatModelError, EmbeddingUnavailableError
from devmem.messages import Message, Role
from devmem.models.openai_chat import OpenAIChat
from devmem.stores import ChatRequest, Embedder, EmbeddingConfig, open_embedder

MEGABYTE = 1_000_000


@cache
def packed_zeros() -> bytes:
    """Return some 900 kB that unpack to 200 MB."""
    return gzip.compress(bytes(200 * MEGABYTE), compresslevel=1)


class Hostile:
    """A service on the loopback address whose answers never end well."""

    def __init__(self, answer: Callable[[Hostile, BaseHTTPRequestHandler], None]) -> None:
        self.sent = 0
        self.asked = 0
        self.over = Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                service.asked += 1
                try:
                    answer(service, self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}/v1"
        self.thread = Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def begin(self, handler: BaseHTTPRequestHandler, status: int = 200, **headers: str) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    def send(self, handler: BaseHTTPRequestHandler, data: bytes) -> None:
        handler.wfile.write(data)
        handler.wfile.flush()
        self.sent += len(data)

    def close(self) -> None:
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def endless(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
    service.begin(handler, content_type="application/json")
    while not service.over.is_set():
        service.send(handler, b" " * 65536)


def bomb(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
    service.begin(handler, content_type="application/json", content_encoding="gzip")
    service.send(handler, packed_zeros())


def packed_otherwise(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
    service.begin(handler, content_encoding="gzip, gzip")


def dripping(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
    service.begin(handler, content_type="application/json")
    while not service.over.wait(0.05):
        service.send(handler, b" ")


def dripping_head(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
    service.send(handler, b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not service.over.wait(0.05):
        service.send(handler, b"a")


def redirecting(to: str) -> Callable[[Hostile, BaseHTTPRequestHandler], None]:
    return lambda service, handler: service.begin(handler, 307, location=to, content_length="0")


Start = Callable[[Callable[[Hostile, BaseHTTPRequestHandler], None]], Hostile]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("NO_PROXY", "*")
    started: list[Hostile] = []

    def run(answer: Callable[[Hostile, BaseHTTPRequestHandler], None]) -> Hostile:
        started.append(Hostile(answer))
        return started[-1]

    yield run
    for service in started:
        service.close()


def block(service: Hostile, timeout: float = 20.0) -> dict[str, Any]:
    params = {"timeout": timeout, "max_retries": 0}
    return {"provider": "openai", "model": "m", "api_key": "k", "base_url": service.address, "params": params}


def embedder(service: Hostile, timeout: float = 20.0) -> Embedder:
    return open_embedder(EmbeddingConfig.model_validate(block(service, timeout)), shared=False)


def test_an_answer_without_end_is_cut_off_by_what_was_asked_for(start: Start) -> None:
    service = start(endless)
    with pytest.raises(EmbeddingUnavailableError, match=r"more than 1,262,144 bytes"):
        embedder(service).embed(["tea"])
    assert service.sent < 20 * MEGABYTE  # the sockets hold some of it


def test_a_packed_answer_is_unpacked_no_further_than_that(start: Start) -> None:
    packed_zeros()  # made here: the zeros themselves are not to be traced
    client = embedder(start(bomb))
    tracemalloc.start()
    try:
        with pytest.raises(EmbeddingUnavailableError, match="bytes"):
            client.embed(["tea"])
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_a_packing_that_was_not_asked_for_is_refused(start: Start) -> None:
    with pytest.raises(EmbeddingUnavailableError, match="packed by 'gzip, gzip'"):
        embedder(start(packed_otherwise)).embed(["tea"])


@pytest.mark.parametrize("answer", [dripping, dripping_head])
def test_a_service_that_drips_is_left_alone_for_a_while(
    answer: Callable[[Hostile, BaseHTTPRequestHandler], None], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("devmem.models.openai_embedding._LONG_WAIT", 0.2)
    service = start(answer)
    client = embedder(service, timeout=0.3)
    with pytest.raises(EmbeddingUnavailableError, match="no answer in time"):
        client.embed(["tea"])
    with pytest.raises(EmbeddingUnavailableError, match="kept callers waiting, and is asked again in"):
        client.embed(["tea"])
    assert service.asked == 1


def test_no_text_goes_to_the_address_of_a_redirect(start: Start, tmp_path: Path) -> None:
    elsewhere = start(endless)
    service = start(redirecting(elsewhere.address + "/embeddings"))
    with devmem.open(tmp_path / "notes.db", embedding=block(service)) as memory:
        added = memory.add("The launch is on June 2nd.")
        (found,) = memory.search("launch")
    assert (found.id, elsewhere.asked) == (added, 0)
    assert service.asked > 0
    with pytest.raises(EmbeddingUnavailableError, match=r"redirects to http://127\.0\.0\.1:\d+, where nothing is sent"):
        embedder(service).embed(["tea"])


def test_a_redirect_within_the_service_is_followed(start: Start) -> None:
    body = b'{"data": [{"embedding": [3.0, 4.0]}]}'

    def answer(service: Hostile, handler: BaseHTTPRequestHandler) -> None:
        if not handler.path.endswith("/"):
            service.begin(handler, 308, location=handler.path + "/", content_length="0")
            return
        service.begin(handler, content_length=str(len(body)))
        service.send(handler, body)

    assert embedder(start(answer)).embed(["tea"])[0].tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    "answer",
    [endless, bomb, dripping, redirecting("http://127.0.0.1:9/v1/chat/completions")],
    ids=["endless", "bomb", "dripping", "redirecting"],
)
def test_a_chat_model_is_asked_by_the_same_policy(
    answer: Callable[[Hostile, BaseHTTPRequestHandler], None], start: Start
) -> None:
    service = start(answer)
    timeout = 0.4 if answer is dripping else 20.0
    chat = OpenAIChat("m", api_key=SecretStr("k"), base_url=service.address, timeout=timeout, max_retries=0)
    with pytest.raises(ChatModelError, match=r"gave no answer.*(more than 32,000,000 bytes|timed out|redirects to)"):
        chat.complete(ChatRequest(messages=(Message(content="tea?", role=Role.USER),)))
