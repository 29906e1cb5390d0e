"""A chat model that works on texts, opened on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from devmem.errors import ChatModelError
from devmem.llm.base import ChatModel, ChatRequest
from devmem.model.message import Message
from devmem.model.message_names import Role


class TextModel:
    """Asks a chat model about texts; safe to use from several threads."""

    def __init__(self, open_model: Callable[[], ChatModel], params: Mapping[str, JsonValue]) -> None:
        self._open, self._params = open_model, params
        self._opened: ChatModel | None = None
        self._lock = threading.Lock()

    def ask(self, instructions: list[str], text: str) -> str:
        """Return the model's answer to instructions about a text.

        Raises:
            ChatModelError: there is no usable answer.
            MissingExtraError: the model's package is not installed.
        """
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
        messages = (
            *(Message(role=Role.SYSTEM, content=instruction) for instruction in instructions),
            Message(role=Role.USER, content=text),
        )
        answer = self._opened.complete(ChatRequest(messages=messages, params=self._params)).text.strip()
        if not answer:
            raise ChatModelError("the language model answered without a text")
        return answer
