"""A store on several databases: what a search ranks, what a shard that is down costs, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import devmem
from devmem.config.shards import ShardsConfig, below
from devmem.errors import CollectionError, ConfigError, ShardDownError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope
from devmem.redaction import location_without_credentials
from devmem.search.query import SearchQuery
from devmem.storage import SqliteCollection
from devmem.storage.fencing import StaleMapError, expecting_map
from devmem.storage.opening import CollectionOptions, open_collection
from devmem.storage.sharding.collection import ShardedCollection
from devmem.storage.sharding.opener import open_shards
from devmem.storage.sharding.shard_map import ShardMap, digest_of, home_of
from devmem.testing import HashEmbedder

_EMBEDDER = HashEmbedder(dimension=32)
_WORDS = ("tea", "train", "rain", "bread", "garden", "ticket", "late", "early", "green", "old")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., ShardedCollection]]:
    everything: list[ShardedCollection] = []

    def make(*, by: str = "user", on_down: str = "report", names: str = "abc") -> ShardedCollection:
        named = "&".join(f"{name}={tmp_path / name}.db" for name in names)
        url = f"shards://{by}?{named}&on_down={on_down}"
        everything.append(open_shards(url, CollectionOptions(model=_EMBEDDER.identity)))
        return everything[-1]

    yield make
    for each in everything:
        each.close()


def _corpus(count: int) -> list[MemoryItem]:
    texts = [
        " ".join(_WORDS[(number * step + step) % len(_WORDS)] for step in range(1, 3 + number % 7)) + f" {number % 17}"
        for number in range(count)
    ]
    vectors = _EMBEDDER.embed(texts)
    return [
        MemoryItem(
            id=str(number), content_summary=text, created_at=1000.0 + number, embedding=vectors[number],
            scope=Scope(user=f"user {number % 23}", conversation=f"talk {number % 23}-{number % 3}"),
        )
        for number, text in enumerate(texts)
    ]  # fmt: skip


def _query(text: str, **options: Any) -> SearchQuery:
    return SearchQuery(text=text, vector=_EMBEDDER.embed([text])[0], limit=10, **options)


def test_a_search_over_all_ranks_as_one_store(opened: Callable[..., ShardedCollection]) -> None:
    """Statistics are those of all shards, so scores are the same too."""
    with_all, one = opened(), SqliteCollection(model=_EMBEDDER.identity)
    for store in (with_all, one):
        store.add(_corpus(500))
    same = 0
    questions = [f"{first} {second} 5" for first in _WORDS for second in _WORDS if first != second]
    for question in questions:
        ours, theirs = with_all.search(_query(question)), one.search(_query(question))
        assert ours[0].score == pytest.approx(theirs[0].score, abs=0.01)
        same += len({hit.item.id for hit in ours} & {hit.item.id for hit in theirs})
    # Equal scores are in the order of rows, which shards number on their own.
    assert same >= 0.95 * 10 * len(questions)
    groups, others = with_all.conversations(_query("tea train")), one.conversations(_query("tea train"))
    assert [each.score for each in groups] == pytest.approx([each.score for each in others], abs=0.01)
    assert len({each.conversation for each in groups} & {each.conversation for each in others}) >= 9
    one.close()


def test_a_tenant_is_searched_in_its_shard_alone(
    opened: Callable[..., ShardedCollection], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened()
    store.add(_corpus(100))
    asked: list[str] = []
    with_source = SqliteCollection.with_source

    def noting(shard: SqliteCollection, *args: Any) -> object:
        asked.append(Path(shard.location).stem)
        return with_source(shard, *args)

    monkeypatch.setattr(SqliteCollection, "with_source", noting)
    hits = store.search(_query("tea", where=Filter(scope=Scope(user="user 3"), include_unscoped=True)))
    assert {hit.item.scope.user for hit in hits} == {"user 3"}
    assert asked == [store.shards.map.shard_of("user 3")]
    store.add([MemoryItem(id="all", content_summary="tea for everybody", created_at=1.0)])
    hits = store.search(_query("tea", where=Filter(scope=Scope(user="user 3"), include_unscoped=True)))
    assert "all" in {hit.item.id for hit in hits}


def test_a_shard_that_is_down_costs_its_tenants_only(
    opened: Callable[..., ShardedCollection], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    store.add(_corpus(200))
    gone = store.shards.map.shard_of("user 3")
    alive = next(name for name in "abc" if name != gone)
    tenant = next(f"user {n}" for n in range(23) if store.shards.map.shard_of(f"user {n}") == alive)
    store.close()
    (tmp_path / f"{gone}.db").rename(tmp_path / "elsewhere.db")
    again = opened()
    assert "is missing or empty, and should be the shard" in caplog.text
    assert not (tmp_path / f"{gone}.db").exists()
    report = again.find(_query("tea"))
    assert report.hits
    assert report.missing == (gone,)
    assert again.search(_query("tea", where=Filter(scope=Scope(user=tenant))))
    again.add([MemoryItem(id="new", content_summary="tea", scope=Scope(user=tenant), created_at=1.0)])
    for call in (
        lambda: again.search(_query("tea", where=Filter(scope=Scope(user="user 3")))),
        lambda: again.add([MemoryItem(id="no", content_summary="tea", scope=Scope(user="user 3"), created_at=1.0)]),
        again.count,
        lambda: again.conversations(_query("tea")),
    ):
        with pytest.raises(ShardDownError, match="is its disk mounted") as caught:
            call()
        assert caught.value.shard == gone
    again.close()
    with pytest.raises(ShardDownError):
        opened(on_down="fail").find(_query("tea"))
    (tmp_path / "elsewhere.db").rename(tmp_path / f"{gone}.db")
    assert opened().count() == 201


def test_a_writer_with_an_older_map_is_refused(opened: Callable[..., ShardedCollection]) -> None:
    store = opened()
    shard = store.shards["a"]
    assert isinstance(shard, SqliteCollection)
    item = MemoryItem(id="1", content_summary="tea", created_at=1.0)
    with expecting_map(store.shards.map.version + 1), pytest.raises(StaleMapError):
        shard.add([item])
    assert shard.count() == 0
    with expecting_map(store.shards.map.version):
        shard.add([item])
    assert shard.count() == 1


def test_a_batch_of_several_tenants_is_stored_or_refused_as_a_whole(opened: Callable[..., ShardedCollection]) -> None:
    store = opened()
    items = _corpus(30)
    with pytest.raises(devmem.errors.VersionConflictError):
        store.add(items, expected={items[-1].id: None, items[0].id: "another"})
    assert store.count() == 0
    store.add(items)
    assert store.count() == 30
    run = store.run("r")
    run.delete(ids=[item.id for item in items[:10]])
    assert (run.count(), store.count()) == (20, 30)
    run.close()
    assert store.commit("r").changes == 10
    assert store.count() == 20
    store.revert("r")
    assert sorted(item.id for item in store.scan()) == sorted(item.id for item in items)


def test_erasing_names_the_files_of_every_shard(opened: Callable[..., ShardedCollection], tmp_path: Path) -> None:
    from devmem.storage.erasure import EraseRequest

    store = opened()
    store.add(_corpus(60))
    request = EraseRequest(where=Filter(source_name=""))
    plan = store.begin_erasure(request)
    assert plan.items == 60
    done = store.finish_erasure(plan, ["xylophone"])
    assert done.items == 60
    assert {Path(place).name for place in done.reached} >= {"a.db", "b.db", "c.db"}
    assert store.count() == 0
    assert store.planned_erasures() == []


@given(
    tenants=st.lists(st.text(), min_size=1, max_size=60, unique=True),
    names=st.lists(st.text("abcdefg", min_size=1), min_size=1, max_size=6, unique=True),
    new=st.text("xyz", min_size=1),
)
def test_a_shard_that_joins_moves_nothing_else(tenants: list[str], names: list[str], new: str) -> None:
    for tenant in map(digest_of, tenants):
        before, after = home_of(tenant, names), home_of(tenant, [*names, new])
        assert after in (before, new)


@given(st.dictionaries(st.text("ab"), st.sampled_from(["a", "b"])), st.booleans())
def test_a_map_is_read_as_it_was_written(exceptions: dict[str, str], unscoped: bool) -> None:
    made = ShardMap(id="1", version=3, by="user", anchor="a", ring=("a", "b"), exceptions=exceptions, unscoped=unscoped)
    assert ShardMap.from_bytes(made.to_bytes(), "x") == made


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=1, max_size=5, unique=True))
def test_a_url_names_the_same_shards(places: list[str]) -> None:
    shards = {f"s{at}": f"x/{place}.db" for at, place in enumerate(places)}
    config = ShardsConfig(shards=shards, by="agent", on_down="fail")
    assert ShardsConfig.parse(config.url()) == config


def test_no_password_of_a_shard_is_shown(tmp_path: Path) -> None:
    url = ShardsConfig(
        shards={
            "one": "postgresql://me:sec%40ret@h1/db?store=x",
            "two": str(tmp_path / "b.db"),
            "three": "postgresql://h2/db?user=me&password=hidden&sslmode=require",
        }
    ).url()
    for shown in (location_without_credentials(url), str(CollectionError(url, "broken"))):
        assert "sec" not in shown
        assert "hidden" not in shown
    assert below(tmp_path, "shards://user?a=x.db&b=/y.db") == f"shards://user?a={tmp_path}/x.db&b=/y.db"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("shards://user", "shards are named as in"),
        ("shards://team?a=a.db", "`by`: expected one of user, agent, conversation, found the text 'team'"),
        ("shards://user?a=a.json", "a JSON file cannot be one"),
        ("shards://user?a=a.db&b=a.db", "two shards are the same database"),
        ("shards://user?a=a.db&a=b.db", "shards are named as in"),
        ("shards://user?a%20b=a.db", "the shard's name 'a b' is not usable"),
    ],
)
def test_a_wrong_url_says_what_is_wrong(url: str, words: str) -> None:
    with pytest.raises(CollectionError, match=words):
        open_collection(url)


def test_the_block_of_a_workflow(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        "memory:\n"
        "  - {name: notes, type: simple, config: {memory_path: {shards: {one: d/one.db, two: d/two.db}, by: user}}}\n"
    )
    with devmem.open(f"{tmp_path}/team.yaml#notes") as memory:
        for user in ("ann", "bob", "王芳"):
            memory.add(f"{user} likes tea", user=user)
        assert memory.store.count_memories() == 3
        assert [hit.item.scope.user for hit in memory.search("tea", user="王芳")] == ["王芳"]
    assert sorted(path.name for path in (tmp_path / "d").glob("*.db")) == ["one.db", "two.db"]
    (tmp_path / "wrong.yaml").write_text(
        "memory:\n  - {name: notes, type: simple, config: {memory_path: {shards: [], by: team}}}\n"
    )
    with pytest.raises(ConfigError, match="`by`: expected one of user, agent, conversation, found the text"):
        devmem.open(f"{tmp_path}/wrong.yaml#notes")


def test_a_shard_that_holds_items_must_stay_named(opened: Callable[..., ShardedCollection]) -> None:
    opened().close()
    with pytest.raises(CollectionError, match=r"tenants live in the shard 'c'.* drain MEMORY c"):
        opened(names="ab")
    with pytest.raises(CollectionError, match="are by user, and the configuration says `by: agent`"):
        opened(by="agent")
