"""Among the items of 3,000 users each way of reading shows one user's alone: a leak of one in a thousand is noticed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import devmem
from devmem import Filter, MemoryItem, Scope
from devmem.storage import Collection, JsonCollection, Order, SearchQuery, SqliteCollection

USERS: Final = [f"user {number}" for number in range(3000)]
ASKED: Final = "user 1234"


def items_of_users() -> list[MemoryItem]:
    return [
        MemoryItem(
            id=f"item of {user}",
            content_summary=f"The code of {user} is secret.",
            scope=Scope(user=user),
            metadata={"owner": user},
        )
        for user in USERS
    ]


def check_that_one_user_is_shown(collection: Collection) -> None:
    """Fail where some way of reading a collection of `items_of_users` shows another user than the one that is asked."""
    collection.add(items_of_users())
    where = Filter(scope=Scope(user=ASKED))
    query = SearchQuery(text="secret code", where=where, limit=100)
    listed: list[list[MemoryItem]] = [
        [hit.item for hit in collection.search(query)],
        collection.recent(100, where),
        collection.recent(100, where, order=Order.EVENT),
        list(collection.scan(where)),
        list(collection.scan(where, order=Order.EVENT)),
    ]
    assert [[item.scope.user for item in each] for each in listed] == [[ASKED]] * len(listed)
    # What is hidden is no candidate either, which would take the place of another one.
    assert collection.search(query).candidates == 1
    assert collection.count(where) == 1
    assert collection.values("user", where) == collection.values("metadata.owner", where) == [ASKED]
    assert collection.value_counts("user", where) == collection.value_counts("metadata.owner", where) == [(ASKED, 1)]
    assert collection.delete(where=where) == 1
    assert collection.count() == len(USERS) - 1


@pytest.mark.parametrize("kind", ["memory", "file", "json"])
def test_a_collection_shows_one_user(kind: str, tmp_path: Path) -> None:
    made: dict[str, Callable[[], Collection]] = {
        "memory": SqliteCollection,
        "file": lambda: SqliteCollection(tmp_path / "notes.db"),
        "json": lambda: JsonCollection(tmp_path / "notes.json"),
    }
    with closing(made[kind]()) as collection:
        check_that_one_user_is_shown(collection)


def test_a_scoped_handle_shows_one_user(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file)) as collection:
        collection.add(items_of_users())
    with devmem.open(file, embedding=None) as memory:
        handle = memory.scoped(user=ASKED)
        every_id = [f"item of {user}" for user in USERS]
        assert [record.user for record in handle.get(every_id)] == [ASKED]
        assert [one for one in every_id if one in handle] == [f"item of {ASKED}"]
        assert [record.user for record in handle.list(100)] == [ASKED]
        assert [hit.user for hit in handle.search("secret code", limit=100)] == [ASKED]
        assert (len(handle), handle.count(), handle.count(by="user")) == (1, 1, [(ASKED, 1)])
        assert handle.forget(matching="secret").items == 1
        assert len(memory) == len(USERS) - 1
