"""A shard that is down, through the store, the command line, HTTP and MCP: its tenants fail, the others do not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import devmem
from devmem.config import Attachment
from devmem.errors import CollectionBusyError, CollectionDamagedError, ShardDownError
from devmem.model.filters import Filter
from devmem.model.items import Scope
from devmem.storage import inspect_location, open_collection
from devmem.storage.sharding.collection import ShardedCollection
from devmem.testing import HashEmbedder
from devmem.workflow import MemoryManager, MemoryOperation

USERS = [f"user {number}" for number in range(9)]


class _Team:
    """A store on three files, one of which can be taken away."""

    def __init__(self, folder: Path, embedding: HashEmbedder | None = None) -> None:
        self.folder, self.embedding = folder, embedding
        self.url = "shards://user?" + "&".join(f"{name}={folder / name}.db" for name in "abc")
        with self.open() as memory:
            for user in USERS:
                memory.add(f"{user} likes green tea", user=user)
            memory.add("the office serves green tea")
            collection = _collection(memory)
            self.home = {user: collection.shards.map.shard_of(user) for user in [*USERS, None]}
        self.down = next(name for user, name in self.home.items() if name != self.home[None])
        self.lost = [user for user in USERS if self.home[user] == self.down]
        self.kept = [user for user in USERS if self.home[user] != self.down]

    def open(self) -> devmem.Memory:
        return devmem.open(self.url, embedding=self.embedding)

    def take_away(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            if (file := self.folder / f"{self.down}.db{suffix}").exists():
                file.rename(self.folder / f"away{suffix}")

    def bring_back(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            if (file := self.folder / f"away{suffix}").exists():
                file.rename(self.folder / f"{self.down}.db{suffix}")


def _collection(memory: devmem.Memory) -> ShardedCollection:
    found = memory.store.collection  # type: ignore[attr-defined]
    assert isinstance(found, ShardedCollection)
    return found


def test_a_damaged_shard_is_told_from_a_disk_that_is_not_mounted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    team = _Team(tmp_path)
    file = tmp_path / f"{team.down}.db"
    data = file.read_bytes()
    file.write_bytes(data[:100] + b"\xff" * (len(data) - 100))
    with team.open() as memory:
        assert f"{team.down}.db: the shard {team.down!r} cannot be used: the file is damaged" in caplog.text
        assert "restore a backup" in caplog.text
        assert memory.search("tea", user=team.kept[0])
        with pytest.raises(ShardDownError):
            memory.search("tea", user=team.lost[0])
    assert file.read_bytes()[100:] == b"\xff" * (len(data) - 100)


def test_a_locked_shard_is_not_a_missing_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    team = _Team(tmp_path)
    file = tmp_path / f"{team.down}.db"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("CREATE TABLE theirs(x)")
        with pytest.raises(CollectionBusyError, match="another process"):
            inspect_location(str(file), busy_timeout=0.01)
        with closing(open_collection(team.url, store_type="simple", busy_timeout=0.01)) as collection:
            assert f"{file}: the shard {team.down!r} cannot be used: another process" in caplog.text
            assert collection.count(Filter(scope=Scope(user=team.kept[0]))) == 1
        assert "missing" not in caplog.text


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 8176, b"no database" * 99])
def test_an_empty_file_is_no_store_and_a_damaged_one_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(content)
    if not content:
        assert inspect_location(str(file)) is None
    else:
        with pytest.raises(CollectionDamagedError, match="damaged"):
            inspect_location(str(file))
    assert file.read_bytes() == content


@pytest.fixture
def team(tmp_path: Path) -> _Team:
    return _Team(tmp_path)


@pytest.fixture
def memory(team: _Team) -> Iterator[devmem.Memory]:
    """The memory, opened while a shard is away."""
    team.take_away()
    with team.open() as opened:
        yield opened


def test_other_tenants_read_and_write(team: _Team, memory: devmem.Memory) -> None:
    user = team.kept[0]
    assert memory.add("a new pot", user=user)
    # Said again, which is looked for first.
    assert memory.add("a new pot", user=user)
    assert memory.count(user=user) == 2
    assert len(memory.search("green pot", user=user)) == 2
    assert len(memory.search("green tea")) == 1
    assert memory.search("green tea").missing_shards == ()
    assert not list(team.folder.glob(f"{team.down}.db"))


def test_its_own_tenants_are_told(team: _Team, memory: devmem.Memory) -> None:
    for call in (
        lambda: memory.add("a new pot", user=team.lost[0]),
        lambda: memory.search("green tea", user=team.lost[0]),
        lambda: memory.count(user=team.lost[0]),
        # Whether it is taken cannot be known.
        lambda: memory.add("a new pot", user=team.kept[0], id="pot"),
        lambda: memory.get("pot"),
        lambda: memory.forget(user=team.kept[0]),
    ):
        with pytest.raises(ShardDownError) as caught:
            call()
        assert caught.value.shard == team.down
    memory.close()
    team.bring_back()
    with team.open() as again:
        assert again.count(user=devmem.ANY) == 10


def test_hits_name_what_was_not_searched(team: _Team, memory: devmem.Memory) -> None:
    hits = memory.search("green tea", user=devmem.ANY, limit=20)
    assert {hit.user for hit in hits} == {*team.kept, None}
    assert hits.missing_shards == (team.down,)


def test_agents_and_tools_are_told_what_was_not_searched(team: _Team, memory: devmem.Memory) -> None:
    operations: list[MemoryOperation] = []
    store = memory.store
    attached = [Attachment(name=store.name)]
    manager = MemoryManager(attached, {store.name: store}, on_operation=operations.append)
    result = manager.retrieve(query="Who likes green tea?", user=devmem.ANY)
    assert result is not None
    assert {item.scope.user for item in result.items} <= {*team.kept, None}
    assert len(result.items) >= 3
    (failure,) = result.failures
    assert f"could not retrieve: the shards: {team.down} cannot be reached" in str(failure)
    assert manager.attachment(store.name, devmem.Scope(user=team.kept[0])).search("green tea")
    manager.close()
    first, *others = [operation.error for operation in operations]
    assert isinstance(first, ShardDownError)
    assert first.shard == team.down
    assert others == [None]


@pytest.mark.parametrize("name", ["recall", "search"])
def test_a_model_is_told_what_was_not_searched(team: _Team, memory: devmem.Memory, name: str) -> None:
    """By the tools over MCP, in text and in data."""
    from devmem.adapters.mcp.search_fetch import SEARCH_FETCH
    from devmem.adapters.mcp.tools import TOOLS, Call

    tool = next(each for each in (*TOOLS, *SEARCH_FETCH) if each.name == name)
    for handle, missing in ((memory.scoped(user=devmem.ANY), [team.down]), (memory, None)):
        call = Call(memory=handle, client="a test", actor="a test", budget=1_000)
        answer = tool.run(call, tool.arguments(query="green tea"))
        data = answer.data.model_dump(exclude_none=True)
        assert data.get("missing_shards") == missing
        named = {"recall": f"the shards {team.down}.", "search": f'"missing_shards":["{team.down}"]'}[name]
        assert (named in answer.text) == bool(missing)


def test_items_of_other_shards_are_embedded(tmp_path: Path) -> None:
    """Nothing keeps them waiting, though what waits in the shard that is down goes on waiting."""
    team = _Team(tmp_path, embedding=HashEmbedder())
    team.take_away()
    with team.open() as memory:
        collection = _collection(memory)
        item = devmem.MemoryItem(content_summary="later", scope=devmem.Scope(user=team.kept[0]), created_at=1.0)
        collection.add([item])
        assert [each.id for each in collection.waiting(9)] == [item.id]
        memory.store.save()
        assert collection.waiting(9) == []


def test_nothing_is_deleted_where_a_shard_is_down(team: _Team, memory: devmem.Memory) -> None:
    collection = _collection(memory)
    before = {name: collection.shards[name].count() for name in "abc" if name != team.down}
    with pytest.raises(ShardDownError):
        collection.clear()
    with pytest.raises(ShardDownError):
        collection.delete(ids=[item.id for item in collection.shards["a" if team.down != "a" else "b"].scan()])
    assert {name: collection.shards[name].count() for name in before} == before


def test_a_shard_that_fails_while_it_is_open_is_named(team: _Team, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write and a listing raise the error that names the shard, as a search does."""
    from devmem.errors import CollectionUnwritableError
    from devmem.storage import SqliteCollection

    with team.open() as memory:
        collection, user = _collection(memory), team.lost[0]
        broken = collection.shards[team.down]

        def fail(shard: SqliteCollection, *_: object, **__: object) -> None:
            if shard is broken:
                raise CollectionUnwritableError(shard.location, "the disk failed; nothing was written.")

        item = devmem.MemoryItem(content_summary="x", scope=devmem.Scope(user=user), created_at=1.0)
        monkeypatch.setattr(SqliteCollection, "add", fail)
        with pytest.raises(ShardDownError, match="the disk failed") as caught:
            collection.add([item])
        assert caught.value.shard == team.down
        assert next(hit.text for hit in memory.scoped(user=user).search("tea")) == f"{user} likes green tea"
        assert memory.search("tea", user=devmem.ANY).missing_shards == ()
