"""Of a message to a store, what asks something decides; texts that others are compared with count as a whole."""

from __future__ import annotations

from pathlib import Path

import devmem

MESSAGE = "We were on the cold lake for hours! By the way, when does my sister arrive?"


def test_records_like_another_share_any_of_its_words(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("We swam in the cold lake for hours.", id="lake")
        memory.add("My sister arrives by train.", id="train")
        memory.add(MESSAGE, id="message")
        assert [hit.id for hit in memory.search(MESSAGE, limit=3)] == ["train", "message", "lake"]
        # Every word counts here, of which the lake has more.
        assert [hit.id for hit in memory.search(like="message", limit=2)] == ["lake", "train"]
