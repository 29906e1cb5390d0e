"""A file of an older format is upgraded when it is opened; nothing is lost."""

from __future__ import annotations

import logging
import signal
import sqlite3
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from devmem.errors import CollectionDamagedError, CollectionError
from devmem.model.caller import acting_as
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Scope, dump_item_json
from devmem.models import PassageEmbeddings
from devmem.search.indexes.passages import passages_of
from devmem.search.indexes.scoring import encode_terms
from devmem.storage import Filter, SearchQuery, SqliteCollection
from devmem.storage.sqlite.database import APPLICATION_ID
from devmem.storage.sqlite.examination import examine, repair
from devmem.storage.sqlite.rows import define_functions
from devmem.storage.sqlite.schema import SCHEMA_VERSION
from devmem.testing import HashEmbedder
from devmem.text.analysis import ANALYSIS_VERSION
from tests.conftest import StartScript
from tools.older_formats import sqlite_to_3, sqlite_to_4, sqlite_to_5, sqlite_to_6, sqlite_to_7

Opened = Callable[[], SqliteCollection]
Embedded = tuple[MemoryItem, PassageEmbeddings]
FORMAT_1 = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items(
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    content_hash TEXT NOT NULL,
    created_at REAL NOT NULL,
    event_time REAL,
    expires_at REAL,
    trust REAL NOT NULL,
    agent TEXT, user TEXT, session TEXT, conversation TEXT, trace TEXT, run TEXT,
    source_kind TEXT NOT NULL,
    source_name TEXT NOT NULL,
    waiting INTEGER NOT NULL,
    body TEXT NOT NULL,
    term_hashes BLOB NOT NULL,
    term_counts BLOB NOT NULL,
    term_length INTEGER NOT NULL
);
CREATE INDEX items_by_content ON items(content_hash);
CREATE INDEX items_by_scope ON items(user, agent, conversation);
CREATE INDEX items_by_session ON items(session) WHERE session IS NOT NULL;
CREATE INDEX items_expiring ON items(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_waiting ON items(row) WHERE waiting;
CREATE TABLE vectors(row INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE changes(number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, kind TEXT NOT NULL);
CREATE TRIGGER count_up AFTER INSERT ON items BEGIN
    UPDATE meta SET value = value + 1 WHERE key = 'count';
END;
CREATE TRIGGER count_down AFTER DELETE ON items BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count';
    DELETE FROM vectors WHERE row = old.row;
    INSERT INTO changes(row, kind) VALUES (old.row, 'deleted');
END;
"""
LONG = " ".join(f"Sentence {n} of a long story." for n in range(60)) + " At its end a zeppelin lands."


def old_items() -> list[MemoryItem]:
    scope = Scope(agent="writer", conversation="c")
    notes = [MemoryItem(id=f"{n}", content_summary=f"note number {n} about tea", scope=scope) for n in range(40)]
    return [
        *notes,
        MemoryItem(id="long", content_summary="Sentence 0…", output_snapshot=MemoryContentSnapshot(text=LONG)),
        MemoryItem(id="blank", content_summary=" "),
        MemoryItem(id="dated", content_summary="a walk", event_time=1_683_504_000.0, metadata={"speaker": "Ann"}),
    ]


def make_old_file(path: Path, embedder: HashEmbedder, items: list[MemoryItem]) -> None:
    """Write a file as format 1 had it: with gaps between the rows, and the last item deleted again."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; BEGIN; {FORMAT_1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 1")
        facts: dict[str, Any] = {
            "collection": "0" * 32,
            "store_type": "simple",
            "analysis": ANALYSIS_VERSION,
            "count": 0,
            "generation": 0,
            "changes_floor": 0,
            "model": embedder.identity.name,
            "dimension": embedder.identity.dimension,
        }
        connection.executemany("INSERT INTO meta VALUES (?, ?)", list(facts.items()))
        for at, item in enumerate([*items, MemoryItem(id="gone", content_summary="gone")]):
            _insert_old(connection, 3 * at + 1, item, embedder)
        connection.execute("DELETE FROM items WHERE id = 'gone'")
        connection.execute("COMMIT")


def _insert_old(connection: sqlite3.Connection, row: int, item: MemoryItem, embedder: HashEmbedder) -> None:
    terms, scope = encode_terms(item.full_text()), item.scope
    values = (
        *(row, item.id, item.content_hash, item.created_at, item.event_time, item.expires_at, item.trust),
        *(scope.agent, scope.user, scope.session, scope.conversation, scope.trace, scope.run),
        *(item.provenance.kind.value, item.provenance.name, 0, dump_item_json(item).decode()),
        *(terms.hashes, terms.counts, terms.length),
    )
    connection.execute(f"INSERT INTO items VALUES ({', '.join('?' * len(values))})", values)
    if item.content_summary.strip():
        vector = embedder.vector(item.content_summary).astype("<f4").tobytes()
        connection.execute("INSERT INTO vectors VALUES (?, ?)", (row, vector))


@pytest.fixture
def items() -> list[MemoryItem]:
    return old_items()


@pytest.fixture
def store(tmp_path: Path, embedder: HashEmbedder, items: list[MemoryItem]) -> Path:
    path = tmp_path / "store.db"
    make_old_file(path, embedder, items)
    return path


@pytest.fixture
def opened(store: Path, embedder: HashEmbedder) -> Opened:
    return lambda: SqliteCollection(store, model=embedder.identity, store_type="simple")


def check_items(collection: SqliteCollection, items: list[MemoryItem]) -> None:
    """The same items in the same order, nothing lost and nothing added."""
    assert list(collection.scan()) == items
    assert collection.recent(2) == items[:-3:-1]
    assert collection.get(["long", "3", "gone"]) == [items[40], items[3]]
    assert collection.count() == collection.info().items == len(items)
    assert collection.count(Filter(scope=Scope(conversation="c"))) == 40


def test_nothing_is_lost(opened: Opened, items: list[MemoryItem], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        collection = opened()
    assert "older format" in caplog.text
    check_items(collection, items)
    collection.close()
    caplog.clear()
    again = opened()
    check_items(again, items)
    assert not caplog.records
    again.close()


def test_items_wait_for_the_embeddings_of_their_passages(
    opened: Opened, items: list[MemoryItem], embedder: HashEmbedder
) -> None:
    collection = opened()
    with_text = [item for item in items if item.content_summary.strip()]
    assert collection.waiting(100) == with_text
    assert collection.info().waiting == len(with_text)
    made = {item.id: PassageEmbeddings.of(embedder.vector(item.content_summary)) for item in with_text}
    assert collection.set_embeddings(made) == len(with_text)
    (hit,) = collection.search(SearchQuery(vector=embedder.vector("note number 7 about tea"), limit=1))
    assert hit.item.id == "7"
    assert hit.similarity == pytest.approx(1, abs=1e-3)
    collection.close()


def test_everything_is_found_by_text(opened: Opened) -> None:
    """Also what could not be asked for before: the day, and the end of a long text."""
    collection = opened()
    for text, wanted in (("number 17", "17"), ("zeppelin", "long"), ("8 May 2023", "dated")):
        assert [hit.item.id for hit in collection.search(SearchQuery(text=text, limit=1))] == [wanted]
    assert collection.search(SearchQuery(text="gone")) == []
    collection.close()


def test_it_is_written_like_any_other(opened: Opened, items: list[MemoryItem], embedder: HashEmbedder) -> None:
    collection = opened()
    new = MemoryItem(id="new", content_summary="a new one", embedding=embedder.vector("a new one"))
    collection.add([new])
    assert collection.delete(ids=["0", "long"]) == 2
    assert list(collection.scan()) == [*(item for item in items if item.id not in ("0", "long")), new]
    collection.close()


def test_a_snapshot_of_the_old_indexes_is_not_used(store: Path, opened: Opened, items: list[MemoryItem]) -> None:
    Path(f"{store}.faiss").write_bytes(b"devmem index 2\nwhatever it was")
    collection = opened()
    check_items(collection, items)
    assert collection.search(SearchQuery(text="zeppelin"))
    collection.close()


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("at", [0, 21, 42])
def test_killed_in_the_middle_it_is_still_the_old_file(
    store: Path, opened: Opened, items: list[MemoryItem], start_script: StartScript, workers: Path, at: int
) -> None:
    before = content(store)
    assert start_script(workers / "upgrade_and_die.py", store, at).wait(timeout=60) == -signal.SIGKILL
    assert content(store) == before
    collection = opened()
    check_items(collection, items)
    collection.close()


def test_a_failure_in_the_middle_leaves_the_old_file(store: Path, opened: Opened) -> None:
    """An item that cannot be read is no reason to lose the others; the file waits for who can read it."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("UPDATE items SET body = 'no JSON' WHERE id = '30'")
        connection.commit()
    before = content(store)
    with pytest.raises(CollectionDamagedError, match="30"):
        opened()
    assert content(store) == before


def test_a_file_without_versions_gets_them(tmp_path: Path, embedder: HashEmbedder) -> None:
    """Its items count as recorded when they were made; from then on it is as any other."""
    path, items = tmp_path / "store.db", old_items()
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        collection.add(items)
    made = max(item.created_at for item in items)
    sqlite_to_3(path)
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        check_items(collection, items)
        with closing(collection.as_of(made)) as earlier:
            assert list(earlier.scan()) == items
        with closing(collection.as_of(made - 3600)) as earlier:
            assert earlier.count() == 0
        collection.add([replace(items[0], content_summary="changed", content_hash="")])
        collection.delete(ids=["1"])
        assert [version.item.content_summary for version in collection.history("0")] == [
            items[0].content_summary,
            "changed",
        ]
        with closing(collection.as_of(made)) as earlier:
            assert list(earlier.scan()) == items
        assert not examine(path).orphans


def test_a_file_without_actors_gets_them(tmp_path: Path) -> None:
    """A file of format 4: its versions and runs are as they were, and new changes name who made them."""
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea", scope=Scope(run="r"))])
        collection.add([MemoryItem(id="1", content_summary="rain")])
        before = collection.history("1")
    sqlite_to_4(path)
    assert not examine(path).bad_versions
    with closing(SqliteCollection(path)) as collection:
        assert collection.history("1") == before
        with acting_as("editor"):
            collection.delete(ids=["1"])
        *_, last = collection.history("1")
        assert last.ended is not None
        assert last.ended.actor == "editor"
    assert not examine(path).bad_versions


def test_a_file_without_an_archive_gets_one(tmp_path: Path, embedder: HashEmbedder) -> None:
    """A file of format 5: it has the same items and versions, and answers as before."""
    path, query = tmp_path / "store.db", SearchQuery(text="tea")
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        collection.add(old_items())
        collection.delete(ids=["0"])
        before = collection.history("0"), list(collection.scan()), [hit.item.id for hit in collection.search(query)]
    sqlite_to_5(path)
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        after = collection.history("0"), list(collection.scan()), [hit.item.id for hit in collection.search(query)]
        assert after == before
        assert collection.archive(["1"]) == 1
        assert collection.archived().count() == 1
        assert bool(collection.restore(["1"])[0])
    assert not examine(path).bad_versions


@pytest.mark.parametrize("at", range(0, 12, 3))
def test_killed_while_versions_are_added_it_is_still_the_old_file(
    tmp_path: Path, start_script: StartScript, workers: Path, at: int
) -> None:
    path, items = tmp_path / "store.db", old_items()
    with closing(SqliteCollection(path)) as collection:
        collection.add(items)
    sqlite_to_3(path)
    before = content(path)
    assert start_script(workers / "upgrade_step_and_die.py", path, 3, at).wait(timeout=60) == -signal.SIGKILL
    assert content(path) == before
    with closing(SqliteCollection(path)) as collection:
        check_items(collection, items)


def _drop_checksums(connection: sqlite3.Connection) -> None:
    for table, column in (("items", "body_checksum"), ("items", "columns_checksum")):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    for table in ("passages", "vectors", "tokens"):
        connection.execute(f"ALTER TABLE {table} DROP COLUMN checksum")


def test_a_file_without_checksums_gets_them(tmp_path: Path, embedder: HashEmbedder) -> None:
    path = tmp_path / "store.db"
    items = [replace(item, embedding=embedder.vector(item.content_summary)) for item in old_items()]
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        collection.add(items)
    sqlite_to_3(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        _drop_checksums(connection)
        connection.execute("PRAGMA user_version = 2")
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        assert list(collection.scan()) == items
        assert collection.search(SearchQuery(vector=embedder.vector("note number 7 about tea")))[0].item.id == "7"
        assert collection.info().damaged == 0


@pytest.mark.parametrize("model", ["hash", "given:own"])
def test_a_file_with_whole_vectors_gets_smaller_ones(tmp_path: Path, embedder: HashEmbedder, model: str) -> None:
    """But for those that the caller made; versions keep theirs, and damaged ones stay as they were."""
    path, identity = tmp_path / "store.db", replace(embedder.identity, name=model)
    items = [replace(item, embedding=embedder.vector(item.content_summary)) for item in old_items()]
    query = SearchQuery(text="tea", vector=embedder.vector("note number 7 about tea"))
    with closing(SqliteCollection(path, model=identity)) as collection:
        collection.add(items)
        collection.add([MemoryItem(id="3", content_summary="replaced", embedding=embedder.vector("replaced"))])
        wanted = [(hit.item.id, hit.score) for hit in collection.search(query)]
    sqlite_to_6(path)
    whole = embedder.vector("x").nbytes
    with closing(sqlite3.connect(path)) as connection, connection:
        assert set(connection.execute("SELECT length(vector) FROM vectors")) == {(whole,)}
        assert connection.execute("SELECT count(*) FROM items WHERE instr(body, '\"content_hash\":')").fetchone()[0] > 9
        damaged = connection.execute("UPDATE vectors SET checksum = checksum + 1 WHERE passage = 2 RETURNING vector")
        (raw,) = damaged.fetchone()
    with closing(SqliteCollection(path, model=identity)) as collection:
        assert [item.content_hash for item in collection.get(["7"])] == [items[7].content_hash]
        found = collection.search(query)[:3]
        assert [hit.item.id for hit in found] == [name for name, _ in wanted[:3]]
        assert [hit.score for hit in found] == pytest.approx([score for _, score in wanted[:3]], abs=2e-3)
        assert len(collection.history("3")) == 2
    with_hash = "SELECT count(*) FROM items WHERE instr(body, '\"content_hash\":')"
    with closing(sqlite3.connect(path)) as connection:
        kept = "SELECT vector FROM vectors WHERE passage = 2"
        assert connection.execute(kept).fetchone() == (raw,)
        lengths = {length for (length,) in connection.execute("SELECT length(vector) FROM vectors WHERE passage <> 2")}
        assert (whole in lengths) == (model == "given:own")
        assert connection.execute(with_hash).fetchone() == (0,)
    if model == "hash":
        assert not [file for file in (path, Path(f"{path}-wal")) if file.exists() and _has(file, items[5])]


@pytest.mark.parametrize(("model", "readable"), [("hash", 0), ("given:own", 30)])
def test_a_devmem_of_format_6_takes_no_bytes_for_float32(
    tmp_path: Path, embedder: HashEmbedder, model: str, readable: int
) -> None:
    """It may have the file open while it is upgraded: it leaves out a vector whose CRC-32 is not its checksum."""
    path = tmp_path / "store.db"
    items = [replace(item, embedding=embedder.vector(item.content_summary)) for item in old_items()[:30]]
    with closing(SqliteCollection(path, model=replace(embedder.identity, name=model))) as collection:
        collection.add(items)
    with closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT vector, checksum FROM vectors").fetchall()
    assert len(stored) == 30
    assert sum(zlib.crc32(vector) == checksum for vector, checksum in stored) == readable


def long_items(embedder: HashEmbedder) -> list[Embedded]:
    """Items of several passages, some of whose token codes take several parts, with embeddings of both kinds."""
    made: list[Embedded] = []
    for number in range(12):
        text = f"note number {number} about tea. " + f"Word{number} and more of word{number}. " * (number * 40)
        passages = passages_of(item := MemoryItem(id=str(number), content_summary=text))
        vectors = np.stack([embedder.vector(passage) for passage in passages])
        width = vectors.shape[1] // 8
        codes = tuple(np.full((50 * number + 1, width), at + number, dtype=np.uint8) for at in range(len(passages)))
        made.append((item, PassageEmbeddings(vectors=vectors, tokens=codes)))
    return made


def make_file_of_format_7(path: Path, embedder: HashEmbedder) -> list[Embedded]:
    embedded = long_items(embedder)
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        collection.add([item for item, _ in embedded])
        assert collection.set_embeddings({item.id: each for item, each in embedded}) == len(embedded)
        collection.add([MemoryItem(id="0", content_summary="replaced", embedding=embedder.vector("replaced"))])
    sqlite_to_7(path)
    with closing(sqlite3.connect(path)) as connection:
        whole = "SELECT count(*) FROM passages WHERE length(term_hashes) <> 8 * length(term_counts)"
        assert connection.execute(whole).fetchone() == (0,)
        assert connection.execute("SELECT max(length(codes)) FROM tokens").fetchone()[0] > 2000
    return embedded


def test_a_file_with_whole_terms_and_codes_gets_smaller_ones(tmp_path: Path, embedder: HashEmbedder) -> None:
    """A file of format 7: it has the same embeddings, finds the same, and keeps what is damaged damaged."""
    path = tmp_path / "store.db"
    embedded = make_file_of_format_7(path, embedder)
    with closing(sqlite3.connect(path)) as connection, connection:
        (last,) = connection.execute("SELECT max(passage) FROM passages WHERE row = 12").fetchone()
        for table in ("passages", "tokens"):
            connection.execute(f"UPDATE {table} SET checksum = checksum + 1 WHERE passage = ?", (last,))
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        for item, wanted in embedded[1:-1]:
            assert collection.get([item.id]) == [item]
            found = collection.embeddings([item.id])[item.id]
            assert found.tokens is not None
            assert wanted.tokens is not None
            assert all(map(np.array_equal, found.tokens, wanted.tokens))
            query = SearchQuery(text=f"word{item.id}", limit=3)
            assert [hit.item.id for hit in collection.search(query)] == [item.id]
        assert [hit.item.id for hit in collection.search(SearchQuery(text="replaced"))] == ["0"]
        assert len(collection.history("0")) == 2
    found_bad = examine(path)
    assert (found_bad.bad_vectors, found_bad.bad_passages, found_bad.orphans) == ([last], [last], {})
    assert found_bad.counts["tokens"] == found_bad.counts["passages"] - 1
    with closing(sqlite3.connect(path)) as connection:
        longest = "SELECT max(length(codes)) FROM tokens WHERE part < ? << 12"
        assert connection.execute(longest, (last,)).fetchone()[0] < 999
        # What is deleted takes its codes with it: the triggers are those of the new table.
        connection.execute("DELETE FROM items")
        connection.execute("DELETE FROM versions")
        assert connection.execute("SELECT count(*) FROM tokens").fetchone() == (0,)


def test_a_repaired_file_of_format_7_is_upgraded(tmp_path: Path, embedder: HashEmbedder) -> None:
    """The repair stores items again, with terms as this devmem stores them."""
    path = tmp_path / "store.db"
    make_file_of_format_7(path, embedder)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE passages SET checksum = checksum + 1 WHERE row IN (3, 7)")
    assert any("stored again" in line for line in repair(examine(path)))
    assert examine(path).is_sound
    with closing(SqliteCollection(path, model=embedder.identity)) as collection:
        for name in map(str, range(1, 12)):
            assert [hit.item.id for hit in collection.search(SearchQuery(text=f"word{name}", limit=3))] == [name]
        assert collection.info().damaged == 0


@pytest.mark.parametrize("at", [0, 1, 9, 21, 24, 40, 60])
def test_killed_while_codes_are_split_it_is_still_the_old_file(
    tmp_path: Path, embedder: HashEmbedder, start_script: StartScript, workers: Path, at: int
) -> None:
    path = tmp_path / "store.db"
    embedded = make_file_of_format_7(path, embedder)
    before = content(path)
    assert start_script(workers / "upgrade_step_and_die.py", path, 7, at).wait(timeout=60) == -signal.SIGKILL
    assert content(path) == before
    with closing(SqliteCollection(path)) as collection:
        check = [collection.get([item.id]) == [item] for item, _ in embedded[1:]]
        assert all(check)


def test_a_devmem_of_format_7_takes_no_terms_of_another_form(tmp_path: Path) -> None:
    """It may have the file open while it is upgraded: it leaves out terms whose CRC-32 is not their checksum."""
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add(old_items())
    with closing(sqlite3.connect(path)) as connection:
        define_functions(connection)
        readable = "crc32(CAST(joined_4(row, term_hashes, term_counts, term_length) AS BLOB)) = checksum"
        query = f"SELECT count(*), sum({readable}) FROM passages WHERE length(term_hashes)"
        number, read = connection.execute(query).fetchone()
        assert number >= 40
        assert read == 0


def _has(file: Path, item: MemoryItem) -> bool:
    """Whether a file has a vector of an item as float32."""
    assert item.embedding is not None
    return item.embedding.tobytes() in file.read_bytes()


def test_names_with_lone_surrogates_of_format_2_are_found(tmp_path: Path) -> None:
    """There two users shared one column value; the items themselves kept their names."""
    path, names = tmp_path / "store.db", ["ann\ud800", "ann\\ud800", "ann"]
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id=f"of {name}", content_summary="tea", scope=Scope(user=name)) for name in names])
    sqlite_to_3(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in names[:2]:
            connection.execute("UPDATE items SET user = 'ann\\ud800' WHERE row = ?", (names.index(name) + 1,))
        connection.execute("UPDATE items SET id = 'of ann\\ud800.' WHERE row = 1")
        connection.execute("PRAGMA user_version = 2")
        _drop_checksums(connection)
    with closing(SqliteCollection(path)) as collection:
        for name in names:
            assert [item.id for item in collection.scan(Filter(scope=Scope(user=name)))] == [f"of {name}"]
            assert [item.id for item in collection.get([f"of {name}"])] == [f"of {name}"]
        assert collection.info().damaged == 0


def test_a_file_that_a_newer_devmem_upgrades_while_it_is_open_is_not_written(tmp_path: Path) -> None:
    """A write of the older devmem may lack values that the newer format requires."""
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea")])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        writes: list[Callable[[], object]] = [
            lambda: collection.add([MemoryItem(id="2", content_summary="rain")]),
            lambda: collection.delete(ids=["1"]),
            lambda: collection.erase(ids=["1"]),
            lambda: collection.run("r").add([MemoryItem(content_summary="milk")]),
        ]
        for write in writes:
            with pytest.raises(CollectionError, match="written by a newer devmem"):
                write()
        assert [item.id for item in collection.scan()] == ["1"]
    with pytest.raises(CollectionError, match=rf"format {SCHEMA_VERSION + 1}, known {SCHEMA_VERSION}"):
        SqliteCollection(path)


def test_an_older_file_is_upgraded_beside_others_that_read_and_write_it(tmp_path: Path) -> None:
    """A reader keeps its state; a writer is waited for, and what it commits is upgraded too."""
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add(old_items())
    sqlite_to_3(path)
    rename = "UPDATE items SET user = 'eve' WHERE id = '1'"
    with (
        closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as writer,
        closing(sqlite3.connect(path, isolation_level=None)) as reader,
    ):
        reader.execute("BEGIN")
        assert reader.execute("PRAGMA user_version").fetchone() == (3,)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(rename)
        with ThreadPoolExecutor(1) as pool:
            opening = pool.submit(SqliteCollection, path)
            wait([opening], timeout=0.1)
            assert not opening.done()
            writer.execute("COMMIT")
            upgraded = opening.result(timeout=30)
        with closing(upgraded):
            assert upgraded.count() == len(old_items())
            assert reader.execute("PRAGMA user_version").fetchone() == (3,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT user FROM items WHERE id = '1'").fetchone() == ("eve",)
