"""A chat service on the loopback address whose answers a test decides."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


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


def answering(text: object) -> Reply:
    return Reply(body={"id": "1", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": text}}]})


@dataclass
class ChatService:
    """Answers with the replies in `script`, in order, and with the last one from then on."""

    script: list[Reply] = field(default_factory=lambda: [answering("hello")])
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    choose: Callable[[dict[str, Any]], Reply] | None = None
    """Chooses the reply to a request instead of `script`."""

    def __post_init__(self) -> None:
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_reply(self) -> Reply:
        """Return the next reply of the script; the last one again from then on."""
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                service.requests.append(request)
                service.keys.append(self.headers.get("authorization", ""))
                reply = service.choose(request) if service.choose else service.next_reply()
                if reply.hangs:
                    service._over.wait()
                    return
                body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                self.send_response(reply.status)
                self.send_header("content-type", reply.kind)
                if not reply.drips:
                    self.send_header("content-length", str(len(body) + reply.is_cut))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self._drip(reply.drips)

            def _drip(self, drops: bytes) -> None:
                with contextlib.suppress(OSError):
                    while drops and not service._over.wait(0.01):
                        self.wfile.write(drops)
                        self.wfile.flush()

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler
