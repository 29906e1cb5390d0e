"""A `brain` store in a database: its conversations are there too, and no file is beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devmem import MemoryContentSnapshot, MemoryWritePayload, Scope
from devmem.stores import StoreSetup
from devmem_stores.brain import BrainMemory
from devmem_stores.brain.config import BrainConfig

pytestmark = pytest.mark.postgres

OpenBrain = Callable[[], BrainMemory]


@pytest.fixture
def open_brain(store_url: str, tmp_path: Path) -> Iterator[OpenBrain]:
    opened: list[BrainMemory] = []

    def open_brain() -> BrainMemory:
        folder = tmp_path / f"machine {len(opened)}"
        folder.mkdir()
        config = BrainConfig(memory_path=store_url, max_messages=4)
        setup = StoreSetup(name="chats", store_type="brain", config=config, base_dir=folder, session_dir=folder)
        store = BrainMemory(setup)
        store.load()
        opened.append(store)
        return store

    yield open_brain
    for store in opened:
        store.close()
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def tell(store: BrainMemory, text: str) -> None:
    store.update(
        MemoryWritePayload(
            inputs_text=text, output_snapshot=MemoryContentSnapshot(text="Noted."), scope=Scope(user="ann")
        )
    )


def history(store: BrainMemory) -> list[str]:
    state = store.brain("ann").snapshot()
    return [entry.message.text() for entry in state.entries]


def test_another_machine_goes_on_with_the_conversation(open_brain: OpenBrain) -> None:
    one, two = open_brain(), open_brain()
    tell(one, "The launch is in June.")
    assert "The launch is in June." in history(two)
    tell(two, "It moved to July.")
    assert history(one) == history(two)
    assert "It moved to July." in history(one)


def test_what_is_forgotten_leaves_the_conversation_everywhere(open_brain: OpenBrain) -> None:
    one, two = open_brain(), open_brain()
    tell(one, "The code is 4711.")
    two.pop()
    assert not [text for text in history(one) if "4711" in text]
