"""Writes items until the process's limit of file sizes stops it, then once more without the limit."""

# ruff: noqa: T201 - its answers go to stdout
from __future__ import annotations

import resource
import signal
import sys

from devmem import MemoryItem
from devmem.errors import CollectionUnwritableError
from devmem.storage import JsonCollection, SqliteCollection
from devmem.testing import HashEmbedder


def main(path: str, limit: int) -> None:
    # Without this the process is killed instead of told.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    embedder = HashEmbedder(dimension=32)
    kind = JsonCollection if path.endswith(".json") else SqliteCollection
    collection = kind(path, model=embedder.identity)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    at = 0
    while True:
        batch = [
            MemoryItem(id=str(n), content_summary=f"note {n}", embedding=embedder.vector(f"note {n}"))
            for n in range(at, at + 40)
        ]
        try:
            collection.add(batch)
        except CollectionUnwritableError as error:
            failure = type(error).__name__
            break
        print(*(item.id for item in batch), sep="\n")
        at += len(batch)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    collection.add([MemoryItem(id="last", content_summary="fits again")])
    print("last")
    print(f"{failure}, then fine")
    collection.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
