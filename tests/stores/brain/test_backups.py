"""A backup that is put back brings no erased message into a conversation."""

from __future__ import annotations

from pathlib import Path

from devmem.storage import EraseRequest
from tests.command_line import run_devmem

from .conftest import MakeBrain


def test_an_erased_message_stays_out(make_brain: MakeBrain, tmp_path: Path) -> None:
    """The backup has the conversation as it was, and the tombstones beside the file tell what is gone since."""
    store = make_brain()
    store.brain().add_talk("The door code is 4711-Zeta.")
    store.brain().add_talk("Tea is at three.")
    run_devmem("backup", tmp_path / "memory.db", tmp_path / "saved.db")
    store.erase_selected(EraseRequest(text="4711-Zeta", tombstone=True))
    store.close()
    run_devmem("backup", tmp_path / "memory.db", tmp_path / "saved.db", "--restore", "--force")
    history = make_brain().brain().history
    assert [message.content for message in history] == ["Tea is at three."]
