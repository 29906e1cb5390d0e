"""A service on this machine that speaks OpenAI's protocol: chat completions that are scripted, and embeddings."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from tests.models.service import ChatService, Reply, Request

_DIMENSION = 64
Messages = list[dict[str, Any]]


def _vector(text: str) -> list[float]:
    """Return counts of the text's words in buckets, so that texts with the same words are near each other."""
    vector = [0.01] * _DIMENSION
    for word in re.findall(r"\w+", text.lower()):
        vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % _DIMENSION] += 1
    return vector


class ScriptedService(ChatService):
    """Answers with what `answer` returns for the messages of a request."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.answer: Callable[[Messages], str] = lambda _messages: "Noted."
        self.chats: list[Messages] = []

    def reply_to(self, request: Request) -> Reply:
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if "messages" in request:
            self.chats.append(request["messages"])
            message = {"role": "assistant", "content": self.answer(request["messages"])}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            found = {"id": "1", "object": "chat.completion", "created": 0, "model": "scripted", "usage": usage}
            return Reply(body={**found, "choices": [choice]})
        if "encoding_format" in request:
            texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
            data = [{"object": "embedding", "index": at, "embedding": _vector(text)} for at, text in enumerate(texts)]
            return Reply(body={"object": "list", "model": request["model"], "data": data, "usage": usage})
        # ChatDev asks the responses API first, and chat completions where there is none.
        return Reply(body={"error": {"message": "not served"}}, status=404)
