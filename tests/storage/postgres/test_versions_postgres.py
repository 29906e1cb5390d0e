"""The contract of versions, kept by a store of a PostgreSQL database, and what is particular to it."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import devmem
from devmem import WorkflowRunner, open_stores
from devmem.errors import ChatModelError, RunConflictError
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, SnapshotBlock
from devmem.model.message import AttachmentRef, MessageBlock
from devmem.storage import Filter, SearchQuery
from devmem.storage.erasure import EraseRequest
from devmem.storage.postgres import search
from devmem.storage.postgres.collection import PostgresCollection
from devmem.stores.abilities import versions_of
from devmem.testing import ManualClock
from devmem.workflow import revert_run
from tests.collection_suite import OpenCollection, VersionSuite
from tests.workflow.runner_doubles import DOWN, ChatsByNode, ScriptedChat, agent_yaml, write_workflow

pytestmark = pytest.mark.postgres

DAY = 86_400
TABLES = ("items", "passages", "vectors", "tokens", "attachments")


class TestVersions(VersionSuite):
    @pytest.fixture
    def open_collection(self, store_url: str) -> OpenCollection:
        return partial(PostgresCollection, store_url)


def rows(store: PostgresCollection, table: str) -> int:
    ((count,),) = store._fetch(f"SELECT count(*) FROM {table} WHERE store = %s", [store.database.store])
    return int(count)


@pytest.mark.parametrize(("days", "kept"), [(None, 3), (30, 2), (1, 1), (0, 1)])
def test_history_is_bounded(store_url: str, days: float | None, kept: int) -> None:
    """Versions that ended longer ago are removed by the writes that follow, passages and all."""
    clock = ManualClock()
    with closing(PostgresCollection(store_url, history_days=days, clock=clock)) as store:
        for text in ("one", "two", "three"):
            store.add([MemoryItem(id="1", content_summary=text)])
            clock.advance(20 * DAY)
        store.add([MemoryItem(id="2", content_summary="another")])
        assert [version.item.content_summary for version in store.history("1")] == ["one", "two", "three"][-kept:]
        assert (rows(store, "items"), rows(store, "passages")) == (kept + 1, kept + 1)


def test_times_of_one_item_never_go_back(store_url: str) -> None:
    """Also where the clock is set back, and where the item was deleted in between."""
    clock = ManualClock()
    with closing(PostgresCollection(store_url, clock=clock)) as store:
        for text in ("one", "two", "", "three"):
            store.add([MemoryItem(id="1", content_summary=text)]) if text else store.delete(ids=["1"])
            clock.advance(-3600)
        history = store.history("1")
        times = [time.at for version in history for time in (version.began, version.ended) if time is not None]
        assert times == sorted(time for time in times if time is not None)
        assert len(set(times)) == 4


def test_many_writers_of_one_item_leave_a_history_without_gaps(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id="1", content_summary="begin")])

        def write(writer: int) -> None:
            for n in range(8):
                store.add([MemoryItem(id="1", content_summary=f"writer {writer} item {n}")])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        history = store.history("1")
        assert len(history) == 33
        assert [each.ended.at for each in history[:-1] if each.ended] == [each.began.at for each in history[1:]]


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


def test_an_erasure_that_was_interrupted_is_known(store_url: str) -> None:
    ann = Scope(user="ann")
    with closing(PostgresCollection(store_url)) as store:
        store.add(
            [MemoryItem(id="1", content_summary="her secret", scope=ann), MemoryItem(id="2", content_summary="x")]
        )
        store.delete(ids=["1"])
        assert store.planned_erasures() == []
        plan = store.begin_erasure(EraseRequest(text="SECRET"), derived=["2"])
        assert plan.ids == ("1", "2")
    with closing(PostgresCollection(store_url)) as store:
        assert [each.ids for each in store.planned_erasures()] == [plan.ids]
        assert store.finish_erasure(plan).items == 1
        assert store.planned_erasures() == []
        assert [rows(store, table) for table in TABLES] == [0] * len(TABLES)


def test_a_run_of_a_workflow_is_a_transaction(store_url: str, tmp_path: Path) -> None:
    """In two stores of one database: what goes wrong leaves nothing, and what is done is reverted as a whole."""
    other = store_url.replace("store=", "store=other%20")
    attached = "{name: notes, retrieve_stage: [gen]}, {name: board, retrieve_stage: [gen]}"
    read = write_workflow(
        tmp_path,
        "transaction: true",
        "memory:",
        f"  - {{name: notes, type: simple, config: {{memory_path: '{store_url}'}}}}",
        f"  - {{name: board, type: blackboard, config: {{memory_path: '{other}', history: keep}}}}",
        "nodes:",
        agent_yaml("first", attached),
        agent_yaml("second", attached),
        "edges: [{from: first, to: second}]",
    )
    with open_stores(read) as stores:

        def counts() -> list[int]:
            return [stores[name].count() for name in ("notes", "board")]

        with pytest.raises(ChatModelError):
            WorkflowRunner(read, stores, chat_models=ChatsByNode(second=ScriptedChat(DOWN))).run("Go")
        assert counts() == [0, 0]
        WorkflowRunner(read, stores, chat_models=ChatsByNode()).run("Go")
        assert counts() == [2, 2]
        done, discarded = versions_of(stores["notes"]).runs()
        assert (done.state.value, discarded.state.value) == ("committed", "discarded")
        revert_run(read, stores, done.run, None)
        assert counts() == [0, 0]


def test_forgetting_reaches_versions(store_url: str) -> None:
    with devmem.open(store_url) as memory:
        secret = memory.add("her secret is blue", user="ann")
        memory.update(secret, "her secret is green")
        assert len(memory.history(secret)) == 2
        memory.forget(user="ann")
        assert memory.history(secret) == []
