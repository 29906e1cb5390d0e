"""The contract of a store type, kept by each of ours wherever it keeps its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, cast

import pytest
from pydantic import JsonValue

import devmem
from devmem import MemoryBase, MemoryItem, MemoryWritePayload, WriteOutcome
from devmem.stores import Embedder, MemoryQuery, StoreSetup, skipped
from devmem.testing import HashEmbedder, ManualClock, OpenStore, StoreSuite
from devmem_stores.blackboard import BlackboardMemory
from devmem_stores.brain import BrainMemory
from devmem_stores.conversation import ConversationMemory
from devmem_stores.long_term import LongTermMemory
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.sharded import ShardedConfig, ShardedMemory
from devmem_stores.simple import SimpleConfig, SimpleMemory
from tests.stores.brain.conftest import RedisServer

IN_SQLITE, IN_JSON, IN_MEMORY, OF_THE_SESSION = "memory.db", "memory/memory.json", None, "auto"


def suite(kind: type[MemoryBase], path: str | None, *, searches: bool = True, **config: JsonValue) -> type[StoreSuite]:
    """Make the suite of a store type whose items are at a path."""

    abilities = {"persists": path is not None, "searches": searches, "embeds": searches}
    made = type("Suite", (StoreSuite,), {"store_class": kind, "config": {"memory_path": path, **config}, **abilities})
    return cast("type[StoreSuite]", made)


TestSimpleInSqlite = suite(SimpleMemory, IN_SQLITE)
TestSimpleInJson = suite(SimpleMemory, IN_JSON)
TestSimpleInMemory = suite(SimpleMemory, IN_MEMORY)
TestSimpleOfTheSession = suite(SimpleMemory, OF_THE_SESSION)
TestBlackboardInSqlite = suite(BlackboardMemory, IN_SQLITE, searches=False)
TestBlackboardInJson = suite(BlackboardMemory, IN_JSON, searches=False)
TestBlackboardInMemory = suite(BlackboardMemory, IN_MEMORY, searches=False)
TestBlackboardOfTheSession = suite(BlackboardMemory, OF_THE_SESSION, searches=False)
TestLongTermInSqlite = suite(LongTermMemory, IN_SQLITE)
TestLongTermInJson = suite(LongTermMemory, IN_JSON)
TestLongTermInMemory = suite(LongTermMemory, IN_MEMORY)
TestRoleZeroInSqliteWithASmallWindow = suite(RoleZeroMemory, IN_SQLITE, memory_k=2)
TestRoleZeroInJson = suite(RoleZeroMemory, IN_JSON)
TestRoleZeroInMemory = suite(RoleZeroMemory, IN_MEMORY)
TestRoleZeroOfTheSession = suite(RoleZeroMemory, OF_THE_SESSION)
TestConversationInSqlite = suite(ConversationMemory, IN_SQLITE, view={"order": "search"})
TestConversationInJson = suite(ConversationMemory, IN_JSON, view={"order": "search"})
TestChronologicalConversation = suite(ConversationMemory, IN_SQLITE, searches=False)
TestBrainInSqlite = suite(BrainMemory, IN_SQLITE)
TestBrainInJson = suite(BrainMemory, IN_JSON)
TestBrainInMemory = suite(BrainMemory, IN_MEMORY)
TestBrainWithRedisDown = suite(BrainMemory, IN_SQLITE, redis={"url": "redis://127.0.0.1:1"})


class TestSimpleWithTooLittleRoom(StoreSuite):
    """The suite says how many items a store must have room for."""

    store_class = SimpleMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": IN_MEMORY, "max_items": 50}
    persists = False

    def test_many_threads(self, store: MemoryBase) -> None:
        with pytest.raises(AssertionError, match="50 of 80 items are left: the suite needs a store with room for 80"):
            super().test_many_threads(store)


class MarkedMemory(SimpleMemory):
    """Selective by design: it keeps only exchanges that are marked as important."""

    def compose(self, payload: MemoryWritePayload) -> MemoryItem | WriteOutcome:
        if not payload.metadata.get("important"):
            return skipped("it is not marked as important")
        return super().compose(payload)


class TestSelective(StoreSuite):
    store_class = MarkedMemory
    config: ClassVar[Mapping[str, JsonValue]] = {"memory_path": IN_SQLITE}

    def kept(self, payload: MemoryWritePayload) -> MemoryWritePayload:
        return replace(payload, metadata={**payload.metadata, "important": True})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()


class TestBrainWithRedis(StoreSuite):
    store_class = BrainMemory

    @pytest.fixture(autouse=True)
    def _redis(self, server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(server.client()) as client:
            client.flushall()
        config = {"memory_path": "memory.db", "redis": {"url": server.url}}
        monkeypatch.setattr(type(self), "config", config)


WORKFLOW = """\
memory:
  - {name: one, type: simple, config: {memory_path: one.db}}
  - {name: two, type: simple, config: {memory_path: two.db}}
  - {name: all, type: sharded, config: {stores: [one, two]}}
"""


class TestOverFiles(StoreSuite):
    store_class = ShardedMemory
    embeds = False
    config: ClassVar[Mapping[str, JsonValue]] = {"stores": ["one", "two", "three"]}

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Iterator[OpenStore]:
        opened: list[MemoryBase] = []

        def open_store(*, embedder: Embedder | None = None, clock: ManualClock | None = None) -> MemoryBase:
            clock = clock or ManualClock()
            embedding = {"embedding": {"provider": "openai", "model": "testing"}} if embedder else {}

            def open_part(name: str) -> MemoryBase:
                block = {"memory_path": str(tmp_path / f"{name}.db"), **embedding}
                config = SimpleConfig.model_validate(block)
                return SimpleMemory(
                    StoreSetup(
                        name=name, store_type="simple", config=config, clock=clock, monotonic=clock,
                        open_embedder=lambda _: embedder or HashEmbedder(),
                    )
                )  # fmt: skip

            config = ShardedConfig.model_validate(self.config)
            setup = StoreSetup(name="suite", store_type="sharded", config=config, clock=clock, open_store=open_part)
            opened.append(ShardedMemory(setup))
            opened[-1].load()
            return opened[-1]

        yield open_store
        for store in opened:
            store.close()


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    file = tmp_path / "team.yaml"
    file.write_text(WORKFLOW)
    return file


def test_items_are_spread_and_found_together(workflow: Path) -> None:
    with devmem.open(f"{workflow}#all") as memory:
        for number in range(40):
            memory.add(f"Note {number} is about tea.", user="ann")
        assert memory.count(user="ann") == 40
        assert len(memory.search("tea", user="ann", limit=40)) == 40
    counts = []
    for name in ("one", "two"):
        with devmem.open(f"{workflow}#{name}") as part:
            counts.append(part.count(user="ann"))
    assert sum(counts) == 40
    assert min(counts) > 8


def test_hits_of_all_stores_are_merged_by_score(workflow: Path) -> None:
    with devmem.open_stores(devmem.load_workflow(workflow)) as stores:
        for name in ("one", "two"):
            texts = [f"The tea of {name} is green.", f"It rains on the garden of {name}."]
            stores[name].add([MemoryItem(id=f"{name} {at}", content_summary=text) for at, text in enumerate(texts)])
        hits = stores["all"].search(MemoryQuery(text="Which tea is green?", limit=2))
        assert {hit.item.id for hit in hits} == {"one 0", "two 0"}
        assert hits[0].score >= hits[1].score
        assert {hit.store for hit in hits} == {"all"}


def test_an_item_stays_in_the_store_that_has_it(workflow: Path) -> None:
    """Whatever the hash says, as after another store was added."""
    with devmem.open_stores(devmem.load_workflow(workflow)) as stores:
        for name, other in (("one", "two"), ("two", "one")):
            stores[name].add([MemoryItem(id=f"in {name}", content_summary="tea")])
            stores["all"].add([MemoryItem(id=f"in {name}", content_summary="rain")])
            assert [item.content_summary for item in stores[name].get([f"in {name}"])] == ["rain"]
            assert stores[other].get([f"in {name}"]) == []


def test_a_store_that_fails_fails_the_search(workflow: Path, tmp_path: Path) -> None:
    """Its items would be missing without a word."""
    with devmem.open_stores(devmem.load_workflow(workflow)) as stores:
        stores["all"].add([MemoryItem(content_summary=f"tea {number}") for number in range(9)])
    (tmp_path / "two.db").write_bytes(b"not a database" * 100)
    with (
        pytest.raises(devmem.errors.CollectionError, match=r"two\.db"),
        devmem.open_stores(devmem.load_workflow(workflow), ["all"]),
    ):
        raise AssertionError("a damaged store was opened")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("stores: [one, tow]", "there is no store 'tow'; did you mean 'two'?"),
        ("stores: [one, all]", "'all' is itself made of other stores; name those"),
        ("stores: [one, lost]", "'lost' keeps its items for this process only"),
    ],
)
def test_wrong_stores_are_named_with_their_line(workflow: Path, written: str, said: str) -> None:
    lost = "  - {name: lost, type: simple, config: {}}\n" if "lost" in written else ""
    workflow.write_text(WORKFLOW.replace("stores: [one, two]", written) + lost)
    with pytest.raises(devmem.ConfigError) as caught:
        devmem.load_workflow(workflow)
    assert f"{workflow}:4: memory[2].config.stores" in str(caught.value)
    assert said in str(caught.value)


def test_an_erasure_reaches_every_store(workflow: Path, tmp_path: Path) -> None:
    with devmem.open(f"{workflow}#all") as memory:
        for number in range(20):
            memory.add(f"Note {number} of the heptagon.", user="ann")
        assert memory.forget(user="ann").items == 20
    assert not any(b"heptagon" in file.read_bytes() for file in tmp_path.glob("*.db*"))
