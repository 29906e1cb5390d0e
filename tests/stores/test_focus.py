"""Of a message to a store, what asks something decides; texts that others are compared with count as a whole."""

from __future__ import annotations

from pathlib import Path

import devmem
from devmem.stores import QueryEmbedding
from devmem.testing import HashEmbedder

MESSAGE = "We were on the cold lake for hours! By the way, when does my sister arrive?"


def test_only_what_asks_is_embedded() -> None:
    embedding = QueryEmbedding(MESSAGE)
    assert embedding.focused().text == "when does my sister arrive?"
    assert embedding.focused() is embedding.focused()
    embedder = HashEmbedder(64)
    asked = embedding.focused().by(embedder)
    assert asked is not None
    assert asked.tolist() == embedder.embed(["when does my sister arrive?"])[0].tolist()
    whole = embedding.by(embedder)
    assert whole is not None
    assert whole.tolist() == embedder.embed([MESSAGE])[0].tolist()


def test_records_like_another_share_any_of_its_words(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("We swam in the cold lake for hours.", id="lake")
        memory.add("My sister arrives by train.", id="train")
        memory.add(MESSAGE, id="message")
        assert [hit.id for hit in memory.search(MESSAGE, limit=3)] == ["train", "message", "lake"]
        # Every word counts here, of which the lake has more.
        assert [hit.id for hit in memory.search(like="message", limit=2)] == ["lake", "train"]
