"""A chat and embedding service on the loopback address whose answers a test decides."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import numpy as np

Request = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Response of the service to one request."""

    body: Any
    """JSON value, or bytes that are sent as they are."""
    status: int = 200
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})
    hangs: bool = False
    """Answer only when the test is over."""
    is_cut: bool = False
    """Close the connection before the end of the body that was announced."""
    drips: bytes = b""
    """Is sent after the body, again and again, until the test is over."""
    is_headless: bool = False
    """Send it before the head is complete."""


Behaviour = Reply | Callable[[Request], Reply]


def answering(text: object) -> Reply:
    return Reply(body={"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": text}}]})


def piece(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return an event of a stream of a chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "1", "object": "chat.completion.chunk", "choices": [choice]}


def streaming(*events: dict[str, Any] | str, done: bool = True) -> Reply:
    """Return a stream of server-sent events."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events] + ["[DONE]"] * done
    return Reply(body="".join(f"data: {line}\n\n" for line in lines).encode(), kind="text/event-stream")


def failing(status: int, body: Any = None) -> Reply:
    """Answer with an error, and ask for a retry at once."""
    return Reply(status=status, body={"error": {"message": "not today"}} if body is None else body)


def vector_of(text: str, size: int = 8) -> list[float]:
    """Return the service's vector of `text`: not of unit length, a different one for each text."""
    return [float(x) for x in np.random.default_rng(list(text.encode())).normal(size=size) * 3]


def embed(request: Request) -> Reply:
    """Answer with a vector for each text."""
    size = request.get("dimensions", 8)
    rows = [{"index": i, "embedding": vector_of(text, size)} for i, text in enumerate(request["input"])]
    return Reply(body={"object": "list", "data": rows, "model": request["model"]})


def usual(request: Request) -> Reply:
    """Embed texts, and greet whoever chats."""
    return embed(request) if "input" in request else answering("hello")


def limited(*, texts: int = 1000, characters: int = 100_000, status: int = 400) -> Callable[[Request], Reply]:
    """Refuse requests with more texts, or with a longer text."""

    def answer(request: Request) -> Reply:
        longest = max(map(len, request["input"]))
        if len(request["input"]) <= texts and longest <= characters:
            return embed(request)
        said = f"at most {texts} inputs of {characters} characters, not {longest}"
        return failing(status, {"error": {"message": said}})

    return answer


@dataclass
class ChatService:
    """Answers as `script` says, in order, and as its last entry says from then on."""

    script: list[Behaviour] = field(default_factory=lambda: [usual])
    requests: list[Request] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reply_to(self, request: Request) -> Reply:
        behaviour = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return behaviour if isinstance(behaviour, Reply) else behaviour(request)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.requests.append(request)
                service.keys.append(self.headers.get("authorization", ""))
                reply = service.reply_to(request)
                if reply.hangs:
                    service._over.wait()
                    return
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                if reply.is_headless:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
                    self.drip(reply)
                self.send_response(reply.status)
                self.send_header("content-type", reply.kind)
                if not reply.drips:
                    self.send_header("content-length", str(len(body) + reply.is_cut))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.drip(reply)

            def drip(self, reply: Reply) -> None:
                with contextlib.suppress(OSError):
                    while reply.drips and not service._over.wait(0.0 if len(reply.drips) > 99 else 0.01):
                        self.wfile.write(reply.drips)
                        self.wfile.flush()

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler
