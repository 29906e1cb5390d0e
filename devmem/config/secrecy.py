"""Keeps secrets out of messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel, SecretStr

from devmem.config.base import Annotation, mentions
from devmem.config.document import Path

_WORDS: Final = {"key", "apikey", "token", "password", "passwd", "passphrase", "secret", "credential", "credentials"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SHORTEST_MASKED: Final = 3


def is_secret_name(name: object) -> bool:
    """Whether a key's name promises a secret: `api_key`, `accessToken`, `password`."""
    return isinstance(name, str) and any(word.lower() in _WORDS for word in _WORD.findall(name[:200]))


def is_secret(path: Path, annotation: Annotation = None) -> bool:
    """Whether the value at a path may not be shown, by its key, a key around it, or its field's type."""
    return mentions(annotation, SecretStr) or any(is_secret_name(step) for step in path)


def masked(message: str, secrets: Iterator[str]) -> str:
    """Replace every secret that a message repeats."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_MASKED and secret in message:
            message = message.replace(secret, "***")
    return message


def secret_texts(value: object, *, secret: bool, models: tuple[type[BaseModel], ...] = ()) -> Iterator[str]:
    """Yield the texts in a value that stand in a secret place; `secret` says whether the whole value does."""
    if isinstance(value, dict):
        for key, entry in value.items():
            fields = [model.model_fields[key].annotation for model in models if key in model.model_fields]
            hidden = secret or is_secret_name(key) or any(mentions(one, SecretStr) for one in fields)
            yield from secret_texts(entry, secret=hidden)
    elif isinstance(value, list):
        for element in value:
            yield from secret_texts(element, secret=secret)
    elif secret and value is not None:
        yield str(value)
