"""The cost of a store that writes its whole JSON file on every update, as DevAll (ChatDev 2) does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tools.bench.synthetic import Corpus


class WholeFileJson:
    """Appends to a list and writes all of it, pretty-printed, embeddings too; looks for twins one by one."""

    def __init__(self, path: Path, corpus: Corpus, size: int) -> None:
        self._path = path
        self._items = [self._item(corpus, at) for at in range(size)]

    def update(self, corpus: Corpus, at: int) -> None:
        """Add one item and write the file."""
        item = self._item(corpus, at)
        digest = _short_hash(str(item["content_summary"]))
        if any(_short_hash(str(other["content_summary"])) == digest for other in self._items):
            return
        self._items.append(item)
        with self._path.open("w", encoding="utf-8") as file:
            json.dump(self._items, file, indent=2, ensure_ascii=False)

    @staticmethod
    def _item(corpus: Corpus, at: int) -> dict[str, object]:
        return {"id": str(at), "content_summary": corpus.texts[at], "embedding": corpus.vectors[at].tolist()}


def _short_hash(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[:8]
