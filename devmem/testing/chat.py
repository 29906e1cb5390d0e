"""Chat models for tests: no service, the same answer to the same request in every process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Final, TypeAlias

from devmem.errors import ChatModelError
from devmem.models.chat import ChatReply, ChatRequest
from devmem.testing.outage import Outage

Line: TypeAlias = str | Exception | Callable[[ChatRequest], str]
"""One answer of a script: its text, an exception to raise, or a function that makes it from the request."""

_QUOTED: Final = 8


class ScriptedChat:
    """Answers with the lines of a script, one for each request; after the last line, with words of the request.

    Such an answer starts with a digest of the whole request, so that different requests get different answers.
    """

    def __init__(self, *script: Line) -> None:
        self._script = list(script)
        self._lock = threading.Lock()
        self.requests: list[ChatRequest] = []
        """Every request, in order."""

    @property
    def asked(self) -> list[str]:
        """The last message of every request, in order."""
        return [request.messages[-1].text() for request in self.requests]

    def complete(self, request: ChatRequest) -> ChatReply:
        """Return the next line; an exception in its place is raised."""
        with self._lock:
            self.requests.append(request)
            line = self._script.pop(0) if self._script else _echo
        if isinstance(line, Exception):
            raise line
        return ChatReply(text=line if isinstance(line, str) else line(request))


class FailingChat(Outage, ScriptedChat):
    """A `ScriptedChat` whose service is down until `recover` is called."""

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer as `ScriptedChat` does.

        Raises:
            ChatModelError: the service is down.
        """
        if self._refuses():
            raise ChatModelError("the chat service of this test is down")
        return super().complete(request)


def _echo(request: ChatRequest) -> str:
    said = "\x00".join(f"{message.role.value}\x00{message.text()}" for message in request.messages)
    digest = sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    words = request.messages[-1].text().split()[:_QUOTED] if request.messages else []
    return " ".join([f"[{digest}]", *words])
