"""Memories in ten languages are found by questions in other words, with the multilingual model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import yaml

from devmem import MemoryItem
from devmem.config import EmbeddingConfig
from devmem.stores import MemoryQuery, StoreSetup
from devmem_stores.simple import SimpleConfig, SimpleMemory

_LANGUAGES: Final[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("languages.yaml").read_text("utf-8"))
_FLOOR: Final = 0.9
"""Least share of questions whose memory is among the first three."""


def found(pairs: list[tuple[str, str]]) -> list[str]:
    """Return the questions whose memory is among the first three of a store with all of a language's memories."""
    config = SimpleConfig(embedding=EmbeddingConfig(provider="e5"))
    with closing(SimpleMemory(StoreSetup(name="notes", store_type="simple", config=config))) as store:
        store.add([MemoryItem(content_summary=memory) for memory, _ in pairs])
        return [
            question
            for memory, question in pairs
            if memory in [hit.item.content_summary for hit in store.search(MemoryQuery(text=question, limit=3))]
        ]


def test_every_language_is_found() -> None:
    missed = {name: {one for _, one in pairs} - {*found(pairs)} for name, pairs in _LANGUAGES.items()}
    questions = sum(map(len, _LANGUAGES.values()))
    assert (len(_LANGUAGES), questions) == (10, 100)
    assert 1 - sum(map(len, missed.values())) / questions >= _FLOOR, missed
    assert all(len(each) <= 3 for each in missed.values()), missed
