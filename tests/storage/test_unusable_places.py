"""A place that cannot be used, or whose file is lost, is named in a typed error, and is left as it was."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from filelock import FileLock

import devmem
from devmem import MemoryItem
from devmem.errors import (
    CollectionBusyError,
    CollectionDamagedError,
    CollectionError,
    CollectionInUseError,
    CollectionUnwritableError,
    EmbeddingMismatchError,
)
from devmem.storage import JsonCollection, SearchQuery, SqliteCollection, open_collection
from devmem.stores import CollectionMemory, ModelIdentity, PassageEmbeddings
from devmem.testing import HashEmbedder
from tests.command_line import run_devmem
from tests.storage.test_index_cache import cut_off

Notes = Callable[..., list[MemoryItem]]


@pytest.fixture
def store(tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> Path:
    path = tmp_path / "store.db"
    collection = SqliteCollection(path, model=embedder.identity, store_type="simple")
    collection.add(notes(0, 200))
    collection.close()
    return path


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """A folder, and a function that makes it read-only, also for root."""
    folder = tmp_path / "sealed"
    folder.mkdir()
    root = os.geteuid() == 0
    if root and subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("root may write everywhere here")

    def seal() -> Path:
        if root:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        else:
            for path in [*folder.iterdir(), folder]:
                path.chmod(0o555 if path.is_dir() else 0o444)
        return folder

    yield seal
    if root:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    else:
        folder.chmod(0o755)


def check_refused(path: Path, error: type[CollectionError]) -> CollectionError:
    """Open it, which must fail with a message that names the file, and must not change it."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(error) as caught:
        open_collection(str(path))
    assert caught.value.location == str(path)
    assert str(path) in str(caught.value)
    assert (path.read_bytes() if path.is_file() else None) == before
    assert not list(path.parent.glob("*-wal"))
    return caught.value


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a text": lambda _: b"not a database" * 1000,
    "zeros": lambda _: bytes(5000),
    "a header": lambda _: b"SQLite format 3\x00" + b"x" * 5000,
    **{f"cut off at {share}": partial(cut_off, share=share) for share in (0.02, 0.1, 0.3, 0.5, 0.8, 0.97)},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_is_no_database(store: Path, damage: str) -> None:
    store.write_bytes(DAMAGE[damage](store.read_bytes()))
    check_refused(store, CollectionDamagedError)


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "bank.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE accounts(n)")
    connection.close()
    check_refused(path, CollectionDamagedError)


def test_a_database_of_another_format(store: Path) -> None:
    connection = sqlite3.connect(store)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    assert "is of format 999, and this devmem reads format 1" in str(check_refused(store, CollectionError))


@pytest.mark.parametrize("column", ["session", "source_kind", "speaker"])
def test_a_database_that_was_made_before_a_field(store: Path, column: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        for index in ("items_by_session", "items_by_turn"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute(f"ALTER TABLE items DROP COLUMN {column}")
        connection.execute("PRAGMA journal_mode = DELETE")
    wrong = (
        f"its table `items` has no column '{column}', which this devmem needs: use the devmem that made it, or export"
    )
    assert wrong in str(check_refused(store, CollectionError))
    report = run_devmem("doctor", store, code=1)
    assert wrong in " ".join(report.output.split())


@pytest.mark.parametrize("page", range(1, 8))
def test_an_overwritten_page(store: Path, embedder: HashEmbedder, page: int) -> None:
    """Wherever the damage is met, the error is typed; what is not damaged can still be read."""
    damaged = bytearray(store.read_bytes())
    damaged[page * 8192 : page * 8192 + 8192] = os.urandom(8192)
    store.write_bytes(damaged)
    try:
        collection = SqliteCollection(store, model=embedder.identity)
    except CollectionDamagedError:
        return
    for use in (lambda: list(collection.scan()), collection.count, lambda: collection.get(["note 7"])):
        with contextlib.suppress(CollectionDamagedError):
            use()
    collection.close()


@pytest.mark.parametrize("name", ["store.db", "store.json"])
def test_a_read_only_file(tmp_path: Path, sealed: Callable[[], Path], name: str) -> None:
    """Writing says so; the file keeps what it has."""
    path = tmp_path / "sealed" / name
    first = open_collection(str(path))
    first.add([MemoryItem(id="1", content_summary="kept")])
    first.close()
    before = path.read_bytes()
    sealed()
    with pytest.raises(CollectionUnwritableError, match="store"):
        open_collection(str(path)).add([MemoryItem(content_summary="lost?")])
    assert path.read_bytes() == before


def test_a_file_that_cannot_be_written_is_searched(
    tmp_path: Path, sealed: Callable[[], Path], notes: Notes, embedder: HashEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "sealed" / "store.db"
    first = SqliteCollection(path, model=embedder.identity, store_type="simple")
    first.add(notes(0, 20))
    first.add([MemoryItem(id="note 3", content_summary="cinnamon rolls")])
    first.close()
    before = sorted(each.name for each in path.parent.iterdir())
    sealed()
    for _ in range(2):
        opened = SqliteCollection(path, model=embedder.identity, store_type="simple")
        assert "for reading only" in caplog.text
        assert [hit.item.id for hit in opened.search(SearchQuery(text="cinnamon"))] == ["note 3"]
        assert opened.search(SearchQuery(vector=embedder.vector("note 7")))
        assert (opened.count(), len(opened.recent(99)), len(opened.history("note 3"))) == (20, 20, 2)
        with closing(opened.as_of(time.time() + 60)) as later:
            assert later.count() == 20
        for write in (lambda each: each.add(notes(0, 99)), SqliteCollection.clear, lambda each: each.erase(ids=["1"])):
            with pytest.raises(CollectionUnwritableError, match="opened for reading only"):
                write(opened)
        opened.close()
    with pytest.raises(CollectionInUseError):
        SqliteCollection(path, store_type="blackboard")
    with pytest.raises(EmbeddingMismatchError):
        SqliteCollection(path, model=ModelIdentity(name="other", dimension=32))
    assert sorted(each.name for each in path.parent.iterdir()) == before


def test_a_log_that_cannot_be_read_without_writing_is_named(tmp_path: Path, sealed: Callable[[], Path]) -> None:
    """Its commits would be missing."""
    used = SqliteCollection(tmp_path / "used.db")
    used.add([MemoryItem(content_summary="tea")])
    for ending in ("", "-wal"):
        shutil.copy(tmp_path / f"used.db{ending}", tmp_path / "sealed" / f"store.db{ending}")
    used.close()
    folder = sealed()
    with pytest.raises(CollectionUnwritableError, match=r"store\.db-wal"):
        SqliteCollection(folder / "store.db")
    for command in (["doctor", folder / "store.db"], ["backup", folder / "store.db", tmp_path / "copy.db"]):
        assert "store.db-wal" in run_devmem(*command, code=2).output
    assert not (tmp_path / "copy.db").exists()


def test_the_file_of_another_type_of_store_or_with_vectors_of_another_length(store: Path) -> None:
    with pytest.raises(CollectionInUseError, match=r"'simple'.*'blackboard'"):
        SqliteCollection(store, store_type="blackboard")
    with pytest.raises(EmbeddingMismatchError, match="devmem reindex"):
        SqliteCollection(store, model=ModelIdentity(name="testing:hash:32", dimension=16))
    collection = SqliteCollection(store, store_type="simple")
    assert collection.count() == 200
    collection.close()


def test_a_lock_that_is_never_released(store: Path, embedder: HashEmbedder) -> None:
    """A write gives up after its time and says who is in the way; reading goes on."""
    collection = SqliteCollection(store, model=embedder.identity, busy_timeout=0.05)
    other = sqlite3.connect(store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(CollectionBusyError, match="another process"):
        collection.add([MemoryItem(content_summary="x")])
    assert collection.count() == 200
    other.execute("ROLLBACK")
    other.close()
    collection.add([MemoryItem(content_summary="x")])
    assert collection.count() == 201
    collection.close()


def test_a_locked_file_is_not_a_damaged_one(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither examining nor copying it ends with the advice to restore a backup."""
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("CREATE TABLE theirs(x)")
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.01))
        for command in (["doctor", store], ["backup", store, tmp_path / "copy.db"]):
            assert "another process" in run_devmem(*command, code=2).output
        monkeypatch.undo()
    run_devmem("doctor", store)
    assert not (tmp_path / "copy.db").exists()


def test_a_lock_file_that_is_never_released(tmp_path: Path) -> None:
    """The same for a JSON file."""
    path = tmp_path / "store.json"
    one, two = JsonCollection(path), JsonCollection(path, busy_timeout=0.05)
    with FileLock(f"{path}.lock"), pytest.raises(CollectionBusyError, match="another process"):
        two.add([MemoryItem(content_summary="x")])
    two.add([MemoryItem(content_summary="x")])
    assert one.count() == 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_goes_away_while_it_is_open(store: Path, tmp_path: Path, replaced: bool) -> None:
    """Nothing is written into a file that nobody will find, or into a log that belongs to another one."""
    backup = tmp_path / "backup.db"
    shutil.copy(store, backup)
    collection = SqliteCollection(store)
    if replaced:
        backup.replace(store)
    else:
        store.unlink()
    with pytest.raises(CollectionUnwritableError, match="while it was open"):
        collection.add([MemoryItem(content_summary="lost?")])
    collection.close()


def test_a_vector_of_another_length_is_named_and_embedded_again(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file) as memory:
        memory.add(["The ship is late.", "It rains.", "The harbour is closed."])
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE vectors SET vector = substr(vector, 1, 200) WHERE passage = 2")
    with devmem.open(file) as memory:
        with pytest.raises(CollectionDamagedError, match="`devmem reindex --force`"):
            memory.search("ship")
        assert len(memory.list(9)) == 3
        assert isinstance(memory.store, CollectionMemory)
        assert memory.store.reindex(force=True) == 3
        assert memory.search("ship")[0].text == "The ship is late."


@pytest.mark.parametrize("name", ["store.db", "store.json"])
def test_a_place_where_no_file_can_be(tmp_path: Path, sealed: Callable[[], Path], name: str) -> None:
    """A folder of that name, a file in the place of a folder, and a folder that nobody may write to."""
    (tmp_path / name).mkdir()
    check_refused(tmp_path / name, CollectionUnwritableError)
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", sealed()):
        with pytest.raises(CollectionUnwritableError) as caught:
            open_collection(str(folder / name)).add([MemoryItem(content_summary="x")])
        assert str(folder) in str(caught.value)


def test_another_model_while_the_file_is_open(tmp_path: Path, embedder: HashEmbedder) -> None:
    """Another process embeds it again with vectors of the same length: nothing is mixed, nothing compared."""
    path, other = tmp_path / "store.db", HashEmbedder(dimension=32, name="another")
    here = SqliteCollection(path, model=embedder.identity)
    here.add([MemoryItem(id="1", content_summary="tea", embedding=embedder.vector("tea"))])
    there = SqliteCollection(path)
    there.replace_model("another", 32)
    there.set_embeddings({"1": PassageEmbeddings.of(other.vector("tea"))})
    with pytest.raises(EmbeddingMismatchError):
        here.search(SearchQuery(vector=embedder.vector("tea")))
    with pytest.raises(EmbeddingMismatchError):
        here.add([MemoryItem(content_summary="rain", embedding=embedder.vector("rain"))])
    here.add([MemoryItem(id="2", content_summary="bread")])
    with pytest.raises(EmbeddingMismatchError):
        here.set_embeddings({"2": PassageEmbeddings.of(embedder.vector("bread"))})
    assert [hit.item.id for hit in here.search(SearchQuery(text="tea"))] == ["1"]
    assert [item.id for item in there.waiting(5)] == ["2"]


def test_a_database_that_is_gone_beside_its_log(tmp_path: Path) -> None:
    """SQLite would delete the log, with commits that are nowhere else."""
    used = SqliteCollection(tmp_path / "used.db")
    used.add([MemoryItem(content_summary="tea")])
    log = tmp_path / "store.db-wal"
    shutil.copy(tmp_path / "used.db-wal", log)
    used.close()
    before = log.read_bytes()
    with pytest.raises(CollectionDamagedError, match=r"the file is missing.*remove .*-wal"):
        SqliteCollection(tmp_path / "store.db")
    assert log.read_bytes() == before


def test_a_database_without_the_log_of_its_commits(tmp_path: Path) -> None:
    """Moved or copied alone, it held no item: what was stored is in the log."""
    used = SqliteCollection(tmp_path / "used.db")
    used.add([MemoryItem(content_summary="tea")])
    moved, log = tmp_path / "moved.db", tmp_path / "moved.db-wal"
    shutil.copy(tmp_path / "used.db", moved)
    before = moved.read_bytes()
    for _ in range(2):
        with pytest.raises(CollectionDamagedError, match=r"without its log.*put the log beside it as moved\.db-wal"):
            SqliteCollection(moved)
        assert not log.exists()
    assert moved.read_bytes() == before
    with pytest.raises(CollectionDamagedError, match="without its log"):
        devmem.open(moved, embedding=None)
    assert not log.exists()
    for command in (["doctor", moved], ["backup", moved, tmp_path / "copy.db"]):
        assert "without its log" in run_devmem(*command, code=2).output
    assert not log.exists()
    shutil.copy(tmp_path / "used.db-wal", log)
    used.close()
    collection = SqliteCollection(moved)
    assert collection.count() == 1
    collection.close()


@pytest.mark.parametrize("use", ["read", "write"])
def test_a_json_file_that_is_deleted_while_it_is_open(tmp_path: Path, use: str) -> None:
    path = tmp_path / "memory.json"
    collection = JsonCollection(path)
    collection.add([MemoryItem(id="1", content_summary="tea")])
    moved = path.rename(tmp_path / "moved.json")
    for _ in range(2):
        with pytest.raises(CollectionUnwritableError, match=r"deleted or moved while it was open.*put it back"):
            collection.count() if use == "read" else collection.add([MemoryItem(content_summary="lost?")])
    assert not path.exists()
    moved.rename(path)
    assert collection.count() == 1
    path.unlink()
    again = JsonCollection(path)
    assert again.count() == 0, "opened again it starts empty"
