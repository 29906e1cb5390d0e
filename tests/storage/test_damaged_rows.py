"""Issue 13, items 2 and 4: a flipped bit or an unusable vector costs one row, which is left out, counted and logged."""

from __future__ import annotations

import json
import logging
import math
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmem
from devmem import MemoryItem, Scope, WriteStatus
from devmem.errors import CollectionDamagedError, CollectionError
from devmem.model.items import dump_item_json
from devmem.storage import Filter, SearchQuery, SqliteCollection
from devmem.storage.sqlite import rows
from devmem.storage.sqlite.examination import examine
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder

EMBEDDER = HashEmbedder()
SCOPE = Scope(user="ann", conversation="c")


def note(n: int) -> MemoryItem:
    text = f"note number {n} about tea"
    return MemoryItem(
        id=str(n), content_summary=text, embedding=EMBEDDER.vector(text), scope=SCOPE, metadata={"n": n, "kind": "note"}
    )


def opened(path: Path) -> SqliteCollection:
    return SqliteCollection(path, model=EMBEDDER.identity)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with closing(opened(path)) as collection:
        collection.add([note(n) for n in range(20)])
    return path


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


QUERIES: list[Callable[[SqliteCollection], list[str]]] = [
    lambda each: [hit.item.id for hit in each.search(SearchQuery(text="tea", limit=50))],
    lambda each: [hit.item.id for hit in each.search(SearchQuery(vector=EMBEDDER.vector("tea"), limit=50))],
    lambda each: [
        hit.item.id for hit in each.search(SearchQuery(text="tea", limit=50, where=Filter(metadata={"kind": "note"})))
    ],
    lambda each: [hit.item.id for group in each.conversations(SearchQuery(text="tea")) for hit in group.hits],
    lambda each: [item.id for item in each.scan(Filter(scope=SCOPE))],
    lambda each: [item.id for item in each.recent(50)],
    lambda each: [item.id for item in each.get([str(n) for n in range(20)])],
    lambda each: [item.id for item in each.waiting(50)],
]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET body = replace(body, 'number 7', 'number 8') WHERE id = '7'",
        "UPDATE items SET body = substr(body, 2) WHERE id = '7'",
        "UPDATE items SET body = CAST(X'FF' || CAST(body AS BLOB) AS TEXT) WHERE id = '7'",
        "UPDATE items SET body = X'00' WHERE id = '7'",
        "UPDATE items SET body = X'', body_checksum = 0 WHERE id = '7'",
    ],
)
def test_a_damaged_body_is_left_out_and_counted(path: Path, statement: str, caplog: pytest.LogCaptureFixture) -> None:
    change(path, statement)
    with closing(opened(path)) as collection:
        for query in QUERIES:
            assert "7" not in query(collection)
        assert len(list(collection.scan())) == 19
        assert collection.info().damaged == 1
        assert collection.delete(ids=["7"]) == 1, "it can be deleted"
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "it is logged once"
    assert str(path) in caplog.text


def test_a_damaged_item_is_forgotten_by_its_id(path: Path) -> None:
    change(path, "UPDATE items SET body = substr(body, 2) WHERE id = '7'")
    with devmem.open(path, embedding=None) as memory:
        assert memory.forget("7", user="bob") == 0
        assert memory.forget("7", dry_run=True) == 1
        assert memory.forget("7") == 1
        assert memory.forget("7") == 0
    with closing(opened(path)) as collection:
        assert collection.count() == 19
        list(collection.scan())
        assert collection.info().damaged == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE items SET user = 'bob' WHERE id = '7'",
        "UPDATE items SET user = CAST(X'FFFE' AS TEXT) WHERE id = '7'",
        "UPDATE items SET cues = 'many' WHERE id = '7'",
        "UPDATE items SET created_at = 'never' WHERE id = '7'",
        "UPDATE items SET length = X'00' WHERE id = '7'",
        "UPDATE items SET user = CAST(user AS BLOB) WHERE id = '7'",
    ],
)
def test_a_damaged_column_shows_nobody_a_foreign_item(path: Path, statement: str) -> None:
    change(path, statement)
    with closing(opened(path)) as collection:
        for query in QUERIES[:4]:
            assert "7" not in query(collection)
        bobs = Filter(scope=Scope(user="bob"))
        assert collection.search(SearchQuery(text="tea", limit=50, where=bobs)) == []
        assert list(collection.scan(bobs)) == []
        assert collection.info().damaged == 1


def test_a_body_or_a_vector_that_is_null(path: Path) -> None:
    """A zeroed block of a row's header reads so; the columns themselves refuse it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'body TEXT NOT NULL', 'body TEXT')")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'vector BLOB NOT NULL', 'vector BLOB')")
    change(path, "UPDATE items SET body = NULL WHERE id = '7'")
    change(path, "UPDATE vectors SET vector = NULL WHERE passage = 3")
    with closing(opened(path)) as collection:
        for query in QUERIES:
            assert "7" not in query(collection)
        assert collection.info().damaged == 2


def test_damaged_terms_and_token_codes_are_left_out(path: Path) -> None:
    change(path, "UPDATE passages SET term_hashes = substr(term_hashes, 2) WHERE passage = 3")
    with closing(opened(path)) as collection:
        assert len(collection.search(SearchQuery(text="tea", limit=50))) == 19
        assert collection.info().damaged == 1


@pytest.mark.parametrize(
    "broken",
    [
        "substr(vector, 3)",
        "CAST(substr(vector, 1, 40) || X'FFFFFF7F' AS BLOB)",
        "X''",
        "X'', checksum = 0",
        "CAST(vector AS TEXT)",
    ],
)
def test_an_item_with_a_damaged_vector_waits_for_another(path: Path, broken: str) -> None:
    change(path, f"UPDATE vectors SET vector = {broken} WHERE passage = 3")
    with closing(opened(path)) as collection:
        hits = collection.search(SearchQuery(vector=EMBEDDER.vector("tea"), limit=50))
        assert [hit.item.id for hit in hits if hit.similarity is None] == ["2"], "beside its neighbours"
        assert len(collection.search(SearchQuery(text="tea", limit=50))) == 20, "it is found by its words"
        collection.add([note(99)])
        (waiting,) = collection.waiting(5)
        collection.set_embeddings({waiting.id: PassageEmbeddings.of(EMBEDDER.vector(waiting.content_summary))})
        query = SearchQuery(vector=EMBEDDER.vector(waiting.content_summary), limit=1)
        assert [hit.item.id for hit in collection.search(query)] == [waiting.id]


def test_new_token_codes_replace_longer_ones(path: Path) -> None:
    """The vector of an item was damaged, so that both are made again, perhaps by another version of the model."""
    long, short = np.arange(2400, dtype=np.uint16).view(np.uint8).reshape(-1, 8), np.ones((2, 8), dtype=np.uint8)
    vectors = EMBEDDER.vector("tea")[None]
    for codes in (long, short):
        change(path, "UPDATE vectors SET vector = substr(vector, 3) WHERE passage = 3")
        with closing(opened(path)) as collection:
            collection.search(SearchQuery(vector=EMBEDDER.vector("tea"), limit=50))
            collection.add([note(len(codes))])
            (waiting,) = [each for each in collection.waiting(5) if each.id == "2"]
            collection.set_embeddings({waiting.id: PassageEmbeddings(vectors=vectors, tokens=(codes,))})
            found = collection.embeddings([waiting.id])[waiting.id].tokens
            assert found is not None
            assert np.array_equal(found[0], codes)
            assert not examine(path).bad_vectors


@pytest.mark.parametrize("vector", [[math.nan] * 64, [math.inf] + [0.0] * 63, [0.0] * 64])
def test_a_vector_without_a_direction_is_not_stored(tmp_path: Path, vector: list[float]) -> None:
    broken = np.array(vector, dtype=np.float32)
    with closing(opened(tmp_path / "new.db")) as collection:
        (outcome,) = collection.add([MemoryItem(id="1", content_summary="tea", embedding=broken)])
        assert outcome.waiting
        assert collection.set_embeddings({"1": PassageEmbeddings.of(broken)}) == 0
        assert [item.id for item in collection.waiting(5)] == ["1"]


@pytest.mark.parametrize("factor", [1e30, 100.0, 1e-20])
def test_a_vector_of_any_length_is_stored_at_unit_length(tmp_path: Path, factor: float) -> None:
    """`add(embedding=[1e30] * 64)` ended the process when FAISS learned its codes from it."""
    long = np.full(64, factor, dtype=np.float32)
    with closing(SqliteCollection(tmp_path / "new.db")) as collection:
        collection.add([MemoryItem(id="long", content_summary="x", embedding=long)])
        (kept,) = collection.get(["long"])
        assert kept.embedding is not None
        assert float(np.linalg.norm(kept.embedding)) == pytest.approx(1, abs=1e-5)


def flips(path: Path, count: int) -> Iterator[bytes]:
    """Return copies of a file with one bit flipped each; the places are drawn with a fixed seed."""
    whole, draw = path.read_bytes(), random.Random(13)
    for _ in range(count):
        damaged = bytearray(whole)
        at = draw.randrange(len(damaged) * 8)
        damaged[at // 8] ^= 1 << at % 8
        yield bytes(damaged)


def test_no_single_flipped_bit_is_a_raw_error_or_a_changed_text(path: Path, tmp_path: Path) -> None:
    texts = {str(n): note(n).content_summary for n in range(20)} | {"new": "new tea"}
    victim = tmp_path / "flipped.db"
    for number, content in enumerate(flips(path, 60)):
        victim.write_bytes(content)
        uses: list[Callable[[SqliteCollection], Any]] = [
            *QUERIES,
            lambda each: each.add([MemoryItem(id="new", content_summary="new tea")]) and [],
        ]
        try:
            collection = opened(victim)
        except CollectionError:
            continue
        with closing(collection):
            for use in uses:
                try:
                    items = collection.get(use(collection))
                except CollectionError:
                    continue
                assert all(item.content_summary == texts[item.id] for item in items), number
        for beside in tmp_path.glob("flipped.db-*"):
            beside.unlink()


def test_a_name_in_the_schema_that_is_not_utf8_is_reported_as_damage(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"indexitems_by_time") + len("index")] ^= 0x80
    path.write_bytes(whole)
    with pytest.raises(CollectionDamagedError, match="restore a backup"):
        opened(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = 'blackboard' WHERE key = 'store_type'",
        "UPDATE meta SET value = value + 1 WHERE key = 'count'",
        "UPDATE meta SET value = value + 256 WHERE key = 'generation'",
        "UPDATE meta SET key = 'mode~' WHERE key = 'model'",
        "UPDATE meta SET value = value + 1 WHERE key = 'checksum'",
    ],
)
def test_an_altered_property_of_the_right_type_is_reported_by_the_checksum(path: Path, statement: str) -> None:
    """It was believed: another store type, another number of items, an index that misses rows."""
    change(path, statement)
    with pytest.raises(CollectionDamagedError, match=r"the properties .*restore a backup"):
        opened(path)


def test_a_file_without_a_checksum_of_its_properties_gets_it_by_the_next_write(path: Path) -> None:
    change(path, "DELETE FROM meta WHERE key = 'checksum'")
    with closing(opened(path)) as collection:
        collection.add([MemoryItem(id="new", content_summary="new")])
    change(path, "UPDATE meta SET value = value + 1 WHERE key = 'count'")
    with pytest.raises(CollectionDamagedError, match="the properties"):
        opened(path)


@pytest.mark.parametrize(
    "statement",
    [
        *(f"DELETE FROM meta WHERE key = '{key}'" for key in ("store_type", "analysis", "count", "generation")),
        "UPDATE meta SET key = 'cou~t' WHERE key = 'count'",
        "UPDATE meta SET value = 'many' WHERE key = 'count'",
        "UPDATE meta SET value = X'00' WHERE key = 'generation'",
        "UPDATE meta SET value = 1.5 WHERE key = 'changes_floor'",
        "UPDATE meta SET value = 'x' WHERE key = 'dimension'",
        "UPDATE meta SET value = X'FF' WHERE key = 'model'",
        "DELETE FROM meta",
    ],
)
@pytest.mark.parametrize("was_open", [False, True])
def test_damaged_properties_are_reported_as_damage(path: Path, statement: str, was_open: bool) -> None:
    """They were a KeyError, a ValueError or a TypeError."""
    if not was_open:
        change(path, statement)
        with pytest.raises(CollectionDamagedError, match=r"the property .*restore a backup"):
            opened(path)
        return
    with closing(opened(path)) as collection:
        change(path, statement)
        for use in (collection.info, lambda: collection.search(SearchQuery(text="tea"))):
            with pytest.raises(CollectionDamagedError, match="the property"):
                use()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE versions SET recorded_from = recorded_from - 1",
        "UPDATE versions SET end_operation = 'forget'",
        "UPDATE versions SET change_run = 'r'",
    ],
)
def test_a_damaged_change_is_in_no_history(tmp_path: Path, statement: str) -> None:
    """Whether its time, its operation or its run: the version is left out, counted, and named by `examine`."""
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea")])
        collection.add([MemoryItem(id="1", content_summary="rain")])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    assert len(examine(path).bad_versions) == 1
    with closing(SqliteCollection(path)) as collection:
        assert [version.item.content_summary for version in collection.history("1")] == ["rain"]
        assert collection.info().damaged == 1


@pytest.mark.parametrize("metadata", [{"deep": json.loads("[" * 220 + "]" * 220)}, {"long": 10**4400}])
def test_a_body_that_cannot_be_parsed_is_left_out_counted_and_erasable(
    path: Path, metadata: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions stored such items; each call that met one raised an error of the parser."""
    unreadable = replace(note(20), metadata={"kind": "note", **metadata})
    with closing(opened(path)) as collection:
        with monkeypatch.context() as patched:
            patched.setattr(rows, "item_body", dump_item_json)
            collection.add([unreadable])
        for query in QUERIES:
            assert "20" not in query(collection)
        assert len(collection.recent(50)) == 20
        assert collection.info().damaged == 1
        assert [version.item.id for version in collection.history("7")] == ["7"]
        assert collection.history("20") == []
        assert collection.erase(ids=["20"]) == 1
        assert collection.count() == 20
        assert collection.add([note(20)])[0].status is WriteStatus.STORED
