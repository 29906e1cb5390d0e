"""Erasures that meet others, fail, or are left to whoever opens the store next."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryItem, acting_as
from devmem.errors import CollectionUnwritableError
from devmem.storage import EraseRequest, SqliteCollection
from devmem.storage.erasure import ErasePlan, search_files, words_in, words_of
from devmem.storage.sqlite import erasing
from tests.conftest import StartScript


def left_in(folder: Path, *words: str) -> set[str]:
    return {word for file in folder.rglob("*") for word in words_in(file, words)}


def test_the_search_for_what_is_left_does_not_find_our_own_sql(tmp_path: Path) -> None:
    text = "Please UPDATE the records, and CREATE TRIGGER metadata."
    with closing(SqliteCollection(tmp_path / "notes.db")) as kept:
        kept.add([MemoryItem(id="pleasant-first", content_summary=text)])
        (item,) = kept.scan()
        sought = words_of([item])
        assert sought
        receipt = kept.finish_erasure(kept.begin_erasure(EraseRequest(ids=(item.id,))), sought)
        assert receipt.residues == ()
    (tmp_path / "copy.txt").write_text(f"A copy: {text}", encoding="utf-8")
    _, (residue,) = search_files([tmp_path / "copy.txt"], sought, lambda word: False)
    assert "pairs of words" in residue.reason


def test_each_erasure_ends_its_own_plan(tmp_path: Path) -> None:
    """Versions that another one planned are erased by it, and the one that ends first says nothing of them."""
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path)) as first, closing(SqliteCollection(path)) as second:
        first.add([MemoryItem(id="a", content_summary="Quillfeather"), MemoryItem(id="b", content_summary="Zanthropy")])
        first.add([MemoryItem(id="b", content_summary="something else")])
        other = second.begin_erasure(EraseRequest(text="Zanthropy"))
        assert (other.ids, len(other.rows)) == ((), 1)
        mine = first.begin_erasure(EraseRequest(ids=("a",)))
        assert {plan.id for plan in first.planned_erasures()} == {mine.id, other.id}
        assert first.finish_erasure(mine, ["Quillfeather"]).residues == ()
        assert [plan.id for plan in first.planned_erasures()] == [other.id]
        assert second.finish_erasure(other, ["Zanthropy"]).residues == ()
        assert first.planned_erasures() == []
        assert [version.item.content_summary for version in first.history("b")] == ["something else"]
        assert left_in(tmp_path, "Quillfeather", "Zanthropy") == set()


def test_an_erasure_counts_its_items_whoever_carries_it_out(tmp_path: Path) -> None:
    """Another process that was at work on the same is finished first; an item is counted by the first plan."""
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id=name, content_summary=f"note {name}") for name in "abc"])
        first = collection.begin_erasure(EraseRequest(ids=("a", "b")))
        second = collection.begin_erasure(EraseRequest(ids=("b", "c")))
        with closing(SqliteCollection(path)) as other:
            for plan in other.planned_erasures():
                other.finish_erasure(plan)
            assert other.count() == 0
        assert [collection.finish_erasure(plan).items for plan in (first, second)] == [2, 1]
        assert collection.planned_erasures() == []


def test_of_two_that_forget_an_item_one_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the one that planned it last deletes it first."""
    path, counts = tmp_path / "notes.db", list[int]()
    begin = SqliteCollection.begin_erasure

    def begin_beside_another(self: SqliteCollection, *request: Any) -> ErasePlan:
        plan = begin(self, *request)
        with monkeypatch.context() as patched:
            patched.setattr(SqliteCollection, "begin_erasure", begin)
            with devmem.open(path, embedding=None) as other:
                counts.append(other.forget("a") if everything is None else other.forget(user=devmem.ANY))
        return plan

    for everything in (None, devmem.ANY):
        with devmem.open(path, embedding=None) as memory:
            memory.add("Quillfeather", id="a")
            with monkeypatch.context() as patched:
                patched.setattr(SqliteCollection, "begin_erasure", begin_beside_another)
                counts.append(memory.forget("a") if everything is None else memory.forget(user=everything))
            assert len(memory) == 0
    assert counts == [0, 1, 0, 1]


_KILLED = """
import os, sys
from devmem.storage import EraseRequest, SqliteCollection
collection = SqliteCollection(sys.argv[1])
collection.begin_erasure(EraseRequest(ids=("a",)))
os._exit(9)
"""


def test_opening_finishes_what_no_living_process_is_at_work_on(tmp_path: Path, start_script: StartScript) -> None:
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id=name, content_summary=f"note {name}") for name in "abc"])
        mine = collection.begin_erasure(EraseRequest(ids=("b",)))
        assert start_script(_KILLED, path).wait(60) == 9
        with devmem.open(path, embedding=None) as memory:
            assert sorted(record.id for record in memory) == ["b", "c"]
        assert [plan.id for plan in collection.planned_erasures()] == [mine.id]
    with devmem.open(path, embedding=None) as memory:
        assert [record.id for record in memory] == ["c"]
    assert list(tmp_path.glob("*.part")) == []


def test_what_a_process_planned_that_died_is_counted_by_the_next_erasure(
    tmp_path: Path, start_script: StartScript
) -> None:
    path = tmp_path / "notes.db"
    with devmem.open(path, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        assert start_script(_KILLED, path).wait(60) == 9
        assert memory.forget("a") == 1


def test_an_erasure_ends_what_it_covers(tmp_path: Path) -> None:
    with closing(SqliteCollection(tmp_path / "notes.db")) as collection:
        collection.add([MemoryItem(id=name, content_summary=f"note {name}") for name in "ab"])
        collection.begin_erasure(EraseRequest(ids=("a",)))
        collection.finish_erasure(collection.begin_erasure(EraseRequest(ids=("a", "b"))))
        assert collection.planned_erasures() == []


@pytest.mark.parametrize("is_erased", [True, False])
def test_a_word_is_kept_by_other_versions_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_erased: bool
) -> None:
    """A version that stays has it by right; one that an erasure passed over shows that it did not reach everything."""
    with closing(SqliteCollection(tmp_path / "notes.db")) as collection:
        for text in ("Quillfeather", "something else"):
            collection.add([MemoryItem(id=name, content_summary=f"{text} {name}") for name in "ab"])
        if not is_erased:
            monkeypatch.setattr(erasing, "remove_versions", lambda *_: 0)
            collection.erase(ids=["b"])
        plan = collection.begin_erasure(EraseRequest(ids=("a",)))
        assert bool(collection.finish_erasure(plan, ["Quillfeather"]).residues) == (not is_erased)


@pytest.mark.parametrize("writers", [6])
def test_a_storm_of_erasures(tmp_path: Path, writers: int) -> None:
    """Each counts one item, and nothing of any is left."""
    path = tmp_path / "notes.db"
    texts = {f"item-{writer}-{n}": f"Secret{writer}x{n}" for writer in range(writers) for n in range(4)}
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id=name, content_summary="before") for name in texts])
        collection.add([MemoryItem(id=name, content_summary=text) for name, text in texts.items()])
    barrier = threading.Barrier(writers)

    def forget(writer: int) -> list[int]:
        barrier.wait()
        with devmem.open(path, embedding=None) as memory:
            return [memory.forget(f"item-{writer}-{n}") for n in range(4)]

    with ThreadPoolExecutor(writers) as pool:
        assert list(pool.map(forget, range(writers))) == [[1] * 4] * writers
    with devmem.open(path, embedding=None) as memory:
        assert len(memory) == 0
        assert not any(memory.history(name) for name in texts)
    assert left_in(tmp_path, *texts.values()) == set()


def test_an_id_that_is_stored_again_meanwhile_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, delete = tmp_path / "notes.db", SqliteCollection.delete
    with devmem.open(path, embedding=None) as memory, devmem.open(path, embedding=None) as other:
        memory.add("before", id="shared")

        def deleted_and_stored_again(self: SqliteCollection, **selected: Any) -> int:
            count = delete(self, **selected)
            other.add("after", id="shared")
            return count

        monkeypatch.setattr(SqliteCollection, "delete", deleted_and_stored_again)
        assert memory.forget("shared") == 1
        assert len(memory) == 0


_STORM = """
import sys
import devmem
where, writer = sys.argv[1:]
with devmem.open(where, embedding=None) as memory:
    sys.stdin.readline()
    for n in range(2):
        for text in ("before", f"Secret{writer}x{n}"):
            memory.add(text, id=f"item-{writer}-{n}")
        assert memory.forget(f"item-{writer}-{n}") == 1
        # The same for all: they wait for each other.
        memory.add(f"Secret{writer}x{n}", id="shared")
        assert (forgotten := memory.forget("shared")) in (0, 1), forgotten
        with devmem.open(where, embedding=None) as other:
            other.add(f"kept {writer} {n}")
"""


def storm(start_script: StartScript, where: str, processes: int = 4) -> None:
    """Have processes forget and open at once; fails where one of them ends with an error, such as a busy store."""
    started = [start_script(_STORM, where, n) for n in range(processes)]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.close()
    assert [process.wait(120) for process in started] == [0] * processes
    with devmem.open(where, embedding=None) as memory:
        assert len(memory) == 2 * processes


def test_a_storm_of_processes_ends_none_as_busy(tmp_path: Path, start_script: StartScript) -> None:
    storm(start_script, str(tmp_path / "notes.db"))
    assert left_in(tmp_path, *(f"Secret{writer}x{n}" for writer in range(4) for n in range(2))) == set()
    assert {file.name for file in tmp_path.iterdir()} == {"notes.db"}


_CUT_OFF = """
import os, sys, threading
from pathlib import Path
from devmem.storage.erasure import ErasePlan, words_in
file = Path(sys.argv[1])
file.touch()
os.truncate(file, 1 << 28)
threading.Timer(0.05, os.truncate, (file, 0)).start()
assert words_in(file, [f"Quillfeather{n}" for n in range(20)]) == set()
"""


def test_a_file_is_searched_while_another_process_cuts_it_off(tmp_path: Path, start_script: StartScript) -> None:
    """SQLite does so with its log; a process that had mapped it into memory was killed by SIGBUS."""
    assert start_script(_CUT_OFF, tmp_path / "log").wait(60) == 0


def test_a_word_is_found_where_two_parts_of_a_file_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmem.storage.erasure._PART", 1024)
    file = tmp_path / "notes.db"
    for at in range(1000, 1030):
        file.write_bytes(bytes(at) + b"Quillfeather" + bytes(at))
        assert words_in(file, ["Quillfeather", "Zanthropy"]) == {"Quillfeather"}
    assert words_in(tmp_path / "gone.db", ["Quillfeather"]) == set()


def test_a_pending_run_leaves_neither_name_nor_actor(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("stays")
        with acting_as("Wobbegong"):
            pending = memory.run("Zanthropy")
            pending.memory.add("Quillfeather", user="ann")
        receipt = memory.erase(user="ann")
        assert receipt.residues == ()
        assert memory.runs() == []
        assert left_in(tmp_path, "Quillfeather", "Zanthropy", "Wobbegong") == set()
        pending.memory.add("again")
        pending.commit()
        assert sorted(record.text for record in memory) == ["again", "stays"]


def _full(*_: object, **__: object) -> int:
    raise CollectionUnwritableError("notes.db", "the disk is full; nothing was deleted.")


def test_an_erasure_that_failed_is_withdrawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told that nothing was deleted finds everything, now and after opening again."""
    path = tmp_path / "notes.db"
    with devmem.open(path, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteCollection, "delete", _full)
            with pytest.raises(CollectionUnwritableError):
                memory.forget("a")
        assert memory.get("a") is not None
    with devmem.open(path, embedding=None) as memory:
        assert [record.id for record in memory] == ["a"]
        assert memory.forget("a") == 1


def test_an_erasure_that_cannot_be_finished_keeps_nobody_from_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add(
            [MemoryItem(id="a", content_summary="Quillfeather"), MemoryItem(id="b", content_summary="stays")]
        )
        collection.begin_erasure(EraseRequest(ids=("a",)))
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(SqliteCollection, "_delete", _full)
        with devmem.open(path, embedding=None) as memory:
            assert memory.search("stays")[0].id == "b"
    assert "waits for the next opening" in caplog.text
    with devmem.open(path, embedding=None) as memory:
        assert [record.id for record in memory] == ["b"]
