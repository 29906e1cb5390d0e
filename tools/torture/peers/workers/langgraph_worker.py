"""LangGraph's `SqliteStore`."""

from __future__ import annotations

import sqlite3

from langgraph.store.sqlite import SqliteStore
from protocol import main  # type: ignore[import-not-found]


def opened(folder: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Open the store of a folder."""
    connection = sqlite3.connect(f"{folder}/store.db", check_same_thread=False, isolation_level=None)
    store = SqliteStore(connection)
    store.setup()

    def add(name: str, text: str) -> None:
        store.put(("torture",), name, {"text": text})

    return add, lambda: [item.value["text"] for item in store.search(("torture",), limit=1_000_000)]


main(opened)
