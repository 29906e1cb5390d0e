"""A chat model on the loopback address that answers in the format which mem0's extraction asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR, socket
from threading import Condition, Thread
from typing import Any, Self


def facts(*texts: str) -> str:
    """Return what `mem0/memory/main.py:_add_to_vector_store` reads from the model."""
    return json.dumps({"memory": [{"text": text, "attributed_to": "user"} for text in texts]})


class LlmServer:
    """Speaks OpenAI's protocol; `answer` makes the reply, or gives a status to fail with."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], str | int] = lambda _: facts()
        self.requests: list[dict[str, Any]] = []
        self._open: set[socket] = set()
        self._changed = Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):  # the other end was faster
                    connection.shutdown(SHUT_RDWR)
        self._server.server_close()
        self._thread.join()

    def left_alone(self, timeout: float = 10.0) -> bool:
        """Wait until nobody is connected, for at most `timeout` seconds; say whether it came to that."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    @property
    def port(self) -> int:
        return self._server.server_port

    def config(self, **more: Any) -> dict[str, Any]:
        """Return the `llm` block of mem0's configuration."""
        base = f"http://127.0.0.1:{self.port}/v1"
        return {"provider": "openai", "config": {"model": "m", "openai_base_url": base, **more}}

    def _handler(server: Self) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's, below
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with server._changed:
                    server._open.add(self.connection)

            def finish(self) -> None:
                super().finish()
                with server._changed:
                    server._open.remove(self.connection)
                    server._changed.notify_all()

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.requests.append(body)
                reply = server.answer(body)
                status = reply if isinstance(reply, int) else 200
                message = {"role": "assistant", "content": reply if isinstance(reply, str) else ""}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                raw = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
                said = json.dumps(raw if status == 200 else {"error": {"message": self.headers["Authorization"]}})
                kind = "Content-Type: application/json"
                head = f"HTTP/1.1 {status} Because\r\n{kind}\r\nContent-Length: {len(said)}\r\n\r\n"
                self.wfile.write(head.encode() + said.encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler
