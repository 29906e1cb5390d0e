"""A chat and embedding service on the loopback address that speaks OpenAI's protocol."""

from __future__ import annotations

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

KEY = "sk-very-secret-0123456789"


def _vector(text: str) -> list[float]:
    """Return another vector for another text."""
    return [float(byte) for byte in hashlib.sha256(text.encode()).digest()[:8]]


class ChatService:
    """Answers with what was last asked, embeds texts, or refuses with the status that the test sets."""

    def __init__(self) -> None:
        self.status = 200
        self.message = "not today"
        self.answer_in_full = True
        self.fails_at: int | None = None
        """The request, counted from 1, from which on the service refuses."""
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def workflow(self, **config: object) -> str:
        """Return a workflow with one agent that asks this service."""
        settings = {"provider": "openai", "model": "some-model", "base_url": self.address, "api_key": KEY, **config}
        memories = [{"name": "notes"}]
        node = {"id": "assistant", "type": "agent", "config": {**settings, "role": "Be kind.", "memories": memories}}
        store = {"name": "notes", "type": "simple", "config": {"memory_path": "notes.db"}}
        return json.dumps({"memory": [store], "nodes": [node]})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: dict[str, Any], key: str) -> dict[str, Any]:
        self.requests.append(request)
        self.keys.append(key)
        if self.fails_at is not None and len(self.requests) >= self.fails_at:
            self.status = 400
        if self.status != 200:
            return {"error": {"message": self.message}}
        if "input" in request:
            return {"data": [{"index": at, "embedding": _vector(text)} for at, text in enumerate(request["input"])]}
        text = f"You said: {request['messages'][-1]['content']}" if self.answer_in_full else None
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                body = json.dumps(service._answer(request, self.headers.get("authorization", ""))).encode()
                self.send_response(service.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler
