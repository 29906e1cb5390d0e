"""Stores of small windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from devmem.messages import AIMessage, Message, UserMessage
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.role_zero.role import RoleMessages
from tests.conftest import MakeStore

OpenStore = Callable[..., RoleZeroMemory]


@pytest.fixture
def open_store(make_store: MakeStore, tmp_path: Path) -> OpenStore:
    """Open a store of roles in the test's folder; the same place each time."""
    model = {"provider": "openai", "model": "testing"}
    return partial(make_store, RoleZeroMemory, session=tmp_path / "session", embedding=model)


@pytest.fixture
def memory(open_store: OpenStore) -> RoleMessages:
    """A role's memory with a window of three."""
    return open_store(memory_k=3).role("engineer")


def said(number: int, content: str = "", **fields: Any) -> Message:
    """Make message number so and so; the user and the model take turns."""
    made = UserMessage if number % 2 == 0 else AIMessage
    return made(content or f"message number {number}", id=f"m{number}", created_at=1000.0 + number, **fields)


def fill(memory: RoleMessages, count: int) -> list[Message]:
    """Add `count` messages, one after another."""
    messages = [said(number) for number in range(count)]
    for message in messages:
        memory.add(message)
    return messages


def ids(messages: Sequence[Message] | Iterator[Message]) -> list[str]:
    return [message.id for message in messages]
