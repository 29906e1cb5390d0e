"""An OpenAI-like service on the loopback address whose answers a test decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Self

import numpy as np

Request = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Response of the service to one request."""

    body: Any
    """JSON value, or bytes that are sent as they are."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def vector_of(text: str, size: int = 8) -> list[float]:
    """Return the service's vector of `text`: not of unit length, a different one for each text."""
    return [float(x) for x in np.random.default_rng(list(text.encode())).normal(size=size) * 3]


def embed(request: Request) -> Answer:
    """Answer correctly."""
    size = request.get("dimensions", 8)
    rows = [{"index": i, "embedding": vector_of(text, size)} for i, text in enumerate(request["input"])]
    return Answer(body={"object": "list", "data": rows, "model": request["model"]})


def failing(status: int, body: Any = None, **headers: str) -> Callable[[Request], Answer]:
    """Answer with an error, and ask for a retry at once."""
    said = {"error": {"message": "not today"}} if body is None else body
    return lambda request: Answer(status=status, body=said, headers={"retry-after-ms": "1", **headers})


def limited(*, texts: int = 1000, characters: int = 100_000, status: int = 400) -> Callable[[Request], Answer]:
    """Refuse requests with more texts, or with a longer text."""

    def answer(request: Request) -> Answer:
        longest = max(map(len, request["input"]))
        if len(request["input"]) > texts or longest > characters:
            said = {"error": {"message": f"at most {texts} inputs of {characters} characters, not {longest}"}}
            return Answer(status=status, body=said)
        return embed(request)

    return answer


class FakeService:
    """Answers with the behaviours in `script`, in order, and with the last of them from then on."""

    def __init__(self) -> None:
        self.script: list[Callable[[Request], Answer]] = [embed]
        self.requests: list[Request] = []
        self.keys: list[str] = []
        self.closing = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def hang(self, request: Request) -> Answer:
        """Answer only when the test is over."""
        self.closing.wait()
        return embed(request)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: Request, key: str) -> Answer:
        self.requests.append(request)
        self.keys.append(key)
        behave = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        return behave(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                answer = service._answer(request, self.headers.get("authorization", ""))
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                if service.closing.is_set():
                    return
                self.send_response(answer.status)
                for name, value in {"content-type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler
