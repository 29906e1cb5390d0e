"""Adds items to a JSON collection, one by one."""

from __future__ import annotations

import sys

from devmem import MemoryItem
from devmem.storage import JsonCollection


def main(path: str, name: str, count: int) -> None:
    collection = JsonCollection(path)
    for n in range(count):
        collection.add([MemoryItem(id=f"{name} {n}", content_summary=f"{name} {n}")])
    collection.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
