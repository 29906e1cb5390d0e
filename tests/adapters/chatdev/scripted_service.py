"""A service on this machine that speaks OpenAI's protocol: chat completions that are scripted, and embeddings."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

_DIMENSION = 64
Messages = list[dict[str, Any]]


def _vector(text: str) -> list[float]:
    """Return counts of the text's words in buckets, so that texts with the same words are near each other."""
    vector = [0.01] * _DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % _DIMENSION] += 1
    return vector


class ScriptedService:
    """Answers with what `answer` returns for the messages of a request."""

    def __init__(self) -> None:
        self.answer: Callable[[Messages], str] = lambda _messages: "Noted."
        self.chats: list[Messages] = []
        self.embedding_fails = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path.endswith("/chat/completions"):
            self.chats.append(request["messages"])
            message = {"role": "assistant", "content": self.answer(request["messages"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            found = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "usage": usage}
            return 200, {**found, "choices": [choice]}
        if path.endswith("/embeddings") and not self.embedding_fails:
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            data = [{"object": "embedding", "index": at, "embedding": _vector(text)} for at, text in enumerate(texts)]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return 200, {"object": "list", "model": request["model"], "data": data, "usage": usage}
        # ChatDev asks the responses API first, and chat completions where there is none.
        return (400 if path.endswith("/embeddings") else 404), {"error": {"message": "not served"}}

    def _handler(service: Self) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, raw = service.reply(self.path, request)
                body = json.dumps(raw).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                return

        return Handler
