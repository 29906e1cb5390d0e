"""The contract of versions, kept by a store of a PostgreSQL database, and what is particular to it."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import pytest

from devmem.errors import RunConflictError
from devmem.model.items import MemoryContentSnapshot, MemoryItem, SnapshotBlock
from devmem.model.message import AttachmentRef, MessageBlock
from devmem.storage import Filter, SearchQuery
from devmem.storage.postgres import search
from devmem.storage.postgres.collection import PostgresCollection
from devmem.testing import ManualClock
from tests.collection_suite import OpenCollection, VersionSuite

pytestmark = pytest.mark.postgres

TABLES = ("items", "passages", "vectors", "tokens", "attachments")


class TestVersions(VersionSuite):
    @pytest.fixture
    def open_collection(self, store_url: str) -> OpenCollection:
        return partial(PostgresCollection, store_url)


def rows(store: PostgresCollection, table: str) -> int:
    ((count,),) = store._fetch(f"SELECT count(*) FROM {table} WHERE store = %s", [store.database.store])
    return int(count)


def test_of_runs_that_commit_at_once_one_wins(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id="old", content_summary="begin")])
        for run in map(str, range(4)):
            with closing(store.run(run)) as view:
                view.add([MemoryItem(id=name, content_summary=f"{name} by {run}") for name in ("new", "old")])

        def commit(run: str) -> bool:
            try:
                store.commit(run)
            except RunConflictError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(commit, map(str, range(4)))) == 1
        assert len({item.content_summary.split()[-1] for item in store.scan()}) == 1


def test_earlier_states_and_runs_are_searched(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the server finds the candidates."""
    for name in ("_FEW", "_FEW_ADMITTED"):
        monkeypatch.setattr(search, name, 0)
    clock = ManualClock()
    with closing(PostgresCollection(store_url, clock=clock)) as store:
        store.add([MemoryItem(id=f"{n}", content_summary=f"tea number {n}") for n in range(9)])
        then = clock()
        store.maintain()
        clock.advance(60)
        with closing(store.run("r")) as view:
            view.add([MemoryItem(id="3", content_summary="coffee at last")])
            assert [hit.item.id for hit in view.search(SearchQuery(text="coffee"))] == ["3"]
        assert list(store.search(SearchQuery(text="coffee"))) == []
        store.commit("r")
        store.maintain()
        assert [hit.item.id for hit in store.search(SearchQuery(text="coffee"))] == ["3"]
        assert len(store.search(SearchQuery(text="tea", limit=20))) == 8
        with closing(store.as_of(then)) as earlier:
            assert len(earlier.search(SearchQuery(text="tea", limit=20))) == 9


def picture(content: bytes) -> MemoryItem:
    uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    ref = AttachmentRef(attachment_id="p", mime_type="image/png", name="p.png", data_uri=uri)
    block = SnapshotBlock(role="user", block=MessageBlock(type="image", attachment=ref))
    return MemoryItem(id="1", content_summary="a picture", output_snapshot=MemoryContentSnapshot(blocks=(block,)))


def test_attachments_stay_as_long_as_a_version_names_them(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        old = picture(b"old" * 50_000)
        store.add([old])
        with closing(store.run("r")) as view:
            view.add([picture(b"new" * 50_000)])
        store.commit("r")
        assert store.history("1")[0].item == old
        store.revert("r")
        assert store.get(["1"]) == [old]
        store.erase(where=Filter())
        assert [rows(store, table) for table in TABLES] == [0] * len(TABLES)
