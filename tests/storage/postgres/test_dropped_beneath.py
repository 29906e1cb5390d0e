"""A store that somebody else dropped: whatever is asked of it says so, and nothing looks merely empty."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest

from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.storage import Filter, SearchQuery
from devmem.storage.erasure import ErasePlan, EraseRequest
from devmem.storage.postgres.collection import PostgresCollection, drop_store

pytestmark = pytest.mark.postgres

ITEM = MemoryItem(id="1", content_summary="tea")

OPERATIONS: dict[str, Callable[[PostgresCollection], object]] = {
    "add": lambda store: store.add([ITEM]),
    "search": lambda store: store.search(SearchQuery(text="tea")),
    "recent": lambda store: store.recent(5),
    "count filtered": lambda store: store.count(Filter(metadata={"a": 1})),
    "values": lambda store: store.values("user"),
    "info": lambda store: store.info(),
    "delete": lambda store: store.delete(ids=["1"]),
    "replace_model": lambda store: store.replace_model("another", 16),
    "history": lambda store: store.history("1"),
    "run": lambda store: store.run("r"),
    "commit": lambda store: store.commit("r"),
    "diff": lambda store: store.diff(0.0),
    "erase": lambda store: store.erase(ids=["1"]),
    "select_erasable": lambda store: store.select_erasable(EraseRequest(where=Filter())),
    "begin_erasure": lambda store: store.begin_erasure(EraseRequest(where=Filter())),
    "finish_erasure": lambda store: store.finish_erasure(ErasePlan()),
    "states.get": lambda store: store.states.get([("kind", "name")]),
    "states.write": lambda store: store.states.write({("kind", "name"): b"1"}),
    "states.exclusive": lambda store: store.states.exclusive("indexing").__enter__(),
}


def test_every_operation_says_that_the_store_was_dropped(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add([ITEM])
        with closing(store.run("pending")) as view:
            view.add([MemoryItem(id="2", content_summary="milk")])
            assert drop_store(store_url)
            silent = [name for name, operation in OPERATIONS.items() if not says_so(partial(operation, store))]
            in_run: dict[str, Callable[[], object]] = {
                "count": view.count,
                "get": lambda: view.get(["2"]),
                "search": lambda: view.search(SearchQuery(text="milk")),
                "add": lambda: view.add([ITEM]),
                "clear": view.clear,
            }
            silent += [f"run.{name}" for name, operation in in_run.items() if not says_so(operation)]
    assert silent == []


def says_so(operation: Callable[[], object]) -> bool:
    try:
        operation()
    except CollectionError as error:
        return "the store was dropped" in str(error)
    return False
