"""Stores of small windows, and places that fail when they are told to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from devmem.messages import AIMessage, Message, UserMessage
from devmem.stores import ChatModel, Embedder, StoreSetup, open_chat
from devmem.testing import HashEmbedder, ManualClock
from devmem_stores.role_zero import RoleZeroConfig, RoleZeroMemory
from devmem_stores.role_zero.role import RoleMemory


class MakeStore(Protocol):
    """Opens a store in the test's folder; the same place each time."""

    def __call__(
        self,
        *,
        made: type[RoleZeroMemory] = RoleZeroMemory,
        rules: dict[str, Any] | None = None,
        embedder: Embedder | None = None,
        base: Path | None = None,
        chat: ChatModel | None = None,
        **config: Any,
    ) -> RoleZeroMemory: ...


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_store(tmp_path: Path, clock: ManualClock) -> Iterator[MakeStore]:
    opened: list[RoleZeroMemory] = []

    def make(
        *,
        made: type[RoleZeroMemory] = RoleZeroMemory,
        rules: dict[str, Any] | None = None,
        embedder: Embedder | None = None,
        base: Path | None = None,
        chat: ChatModel | None = None,
        **config: Any,
    ) -> RoleZeroMemory:
        block = {"embedding": {"provider": "openai", "model": "testing"}, **config}
        home = base or tmp_path
        setup = StoreSetup(
            name="roles",
            store_type="role_zero",
            config=RoleZeroConfig.model_validate(block),
            base_dir=home,
            session_dir=home / "session",
            open_embedder=lambda _: embedder or HashEmbedder(),
            open_chat=lambda block: chat or open_chat(block),
            clock=clock,
            monotonic=clock,
        )
        opened.append(made(setup, **(rules or {})))
        opened[-1].load()
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def memory(make_store: MakeStore) -> RoleMemory:
    """A role's memory with a window of three."""
    return make_store(memory_k=3).role("engineer")


def said(number: int, content: str = "", **fields: Any) -> Message:
    """Make message number so and so; the user and the model take turns."""
    made = UserMessage if number % 2 == 0 else AIMessage
    return made(content or f"message number {number}", id=f"m{number}", created_at=1000.0 + number, **fields)


def fill(memory: RoleMemory, count: int) -> list[Message]:
    """Add `count` messages, one after another."""
    messages = [said(number) for number in range(count)]
    for message in messages:
        memory.add(message)
    return messages


def ids(messages: Sequence[Message] | Iterator[Message]) -> list[str]:
    return [message.id for message in messages]
