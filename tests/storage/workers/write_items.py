"""Writes items into a SQLite collection and names each on stdout after `add` returned."""

from __future__ import annotations

import os
import sys

from devmem import MemoryItem
from devmem.storage import SqliteCollection
from devmem.testing import HashEmbedder


def main(path: str, name: str, count: int, batch: int) -> None:
    embedder = HashEmbedder(dimension=32)
    collection = SqliteCollection(path, model=embedder.identity, durability="normal")
    os.write(1, b"open\n")
    for start in range(0, count, batch):
        texts = [f"{name} {n}" for n in range(start, min(start + batch, count))]
        collection.add([MemoryItem(id=text, content_summary=text, embedding=embedder.vector(text)) for text in texts])
        # Unbuffered: what was named was stored before.
        os.write(1, "".join(f"{text}\n" for text in texts).encode())
    collection.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
