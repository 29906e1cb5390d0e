"""A chat model on the loopback address that answers in the format which mem0's extraction asks for."""

from __future__ import annotations

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from socket import SHUT_RDWR, socket
from threading import Condition
from typing import Any

from tests.models.service import ChatService, Reply, answering


def facts(*texts: str) -> Reply:
    """Return what `mem0/memory/main.py:_add_to_vector_store` reads from the model."""
    return answering(json.dumps({"memory": [{"text": text, "attributed_to": "user"} for text in texts]}))


class LlmServer(ChatService):
    """Keeps connections, and knows which are open."""

    def __post_init__(self) -> None:
        self.script = [facts()]
        self._open: set[socket] = set()
        self._changed = Condition()
        super().__post_init__()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            for connection in self._open:
                with suppress(OSError):  # the other end was faster
                    connection.shutdown(SHUT_RDWR)
        super().__exit__()

    def left_alone(self, timeout: float = 10.0) -> bool:
        """Wait until nobody is connected, for at most `timeout` seconds; say whether it came to that."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def config(self, **more: Any) -> dict[str, Any]:
        """Return the `llm` block of mem0's configuration."""
        return {"provider": "openai", "config": {"model": "m", "openai_base_url": self.address, **more}}

    def handler(server) -> type[BaseHTTPRequestHandler]:  # noqa: N805 - `self` is the handler's, below
        class Handler(super().handler()):  # type: ignore[misc]
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

        return Handler
