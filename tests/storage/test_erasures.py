"""Erasures that meet others, fail, or are interrupted: what is gone is in no file, and everything else is there."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import devmem
from devmem import Memory, MemoryItem, acting_as
from devmem.errors import CollectionBusyError
from devmem.storage import EraseRequest, SqliteCollection

# Only a receipt shows it otherwise, of a whole erasure for each example.
from devmem.storage.erasure import words_in
from tests.conftest import StartScript
from tests.dying import DYING
from tests.generated import examples


def left_in(folder: Path, *words: str) -> set[str]:
    """Return the words whose bytes are in some file of a folder."""
    contents = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    return {word for word in words if any(word.encode() in content for content in contents)}


def test_words_that_sql_and_other_items_have_too_are_no_residue(tmp_path: Path) -> None:
    text = "Please UPDATE the records, and CREATE TRIGGER metadata. Quillfeather."
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        erased, _ = memory.add(text), memory.add("Quillfeather is known to others.")
        receipt = memory.forget(erased, verify=True)
    assert (receipt.items, receipt.residues) == (1, ())
    assert receipt.reached


def test_a_word_that_other_versions_hold_is_no_residue(tmp_path: Path) -> None:
    """A version that stays has it by right."""
    with closing(SqliteCollection(tmp_path / "notes.db")) as collection:
        for text in ("Quillfeather", "something else"):
            collection.add([MemoryItem(id=name, content_summary=f"{text} {name}") for name in "ab"])
        for name, left in (("a", {"Quillfeather"}), ("b", set())):
            plan = collection.begin_erasure(EraseRequest(ids=(name,)))
            assert collection.finish_erasure(plan, ["Quillfeather"]).residues == ()
            assert left_in(tmp_path, "Quillfeather") == left


def _versions_come_and_go(memory: Memory, seed: int, *, verify: bool) -> Iterator[str]:
    """Have versions of several items written in turns and forgotten; yield a word of each that is gone."""
    chance = Random(seed)

    def life(word: str) -> Iterator[str | None]:
        # Where files are searched at once, only an older version has the word.
        name, last = (f"item {word[::-1]}", "something else") if verify else (f"id {word}", f"after {word}")
        for text in (f"before {word}", f"between {word}", last):
            memory.add(text, id=name)
            yield None
        assert not memory.forget(name, verify=verify).residues
        yield word

    lives: list[Iterator[str | None]] = []
    for number in range(200):
        while len(lives) < 5:
            lives.append(life(f"secret{number:03}x{len(lives)}word"))
        if chance.random() < 0.5:
            memory.add(f"w{number} stays")
        one = chance.choice(lives)
        try:
            if (word := next(one)) is not None:
                yield word
        except StopIteration:
            lives.remove(one)


@pytest.mark.parametrize(("seed", "verify"), [(14, False), (19, False), (97, True)])
def test_copies_that_sqlite_leaves_in_its_pages_are_removed(tmp_path: Path, seed: int, verify: bool) -> None:
    """Where it rebuilds a page, a part that is not used any more keeps what was there, secure deletion or not."""
    gone: list[str] = []
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        for word in _versions_come_and_go(memory, seed, verify=verify):
            gone.append(word)
            if verify:
                assert left_in(tmp_path, word) == set()
    assert left_in(tmp_path, *gone) == set()


def test_what_another_process_has_not_searched_stays_planned(tmp_path: Path) -> None:
    """Where it dies before it has, whoever opens the file next rewrites it, whatever was erased meanwhile."""
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path)) as first, closing(SqliteCollection(path)) as other:
        first.add([MemoryItem(id=name, content_summary=f"Quillfeather {name}") for name in "ab"])
        for collection, name in ((first, "a"), (other, "b")):
            collection.finish_erasure(collection.begin_erasure(EraseRequest(ids=(name,))))
        assert [plan.is_executed for plan in first.planned_erasures()] == [True, True]
        other.close()
        assert [plan.is_executed for plan in first.planned_erasures()] == [True]
    with closing(SqliteCollection(path)) as again:
        assert again.planned_erasures() == []


_KILLED = (
    DYING
    + """
path, share = sys.argv[1], float(sys.argv[2])
with devmem.open(path, embedding=None) as memory:
    for name in ("first", "second"):
        memory.add(f"Quillfeather{name}", id=name, user="ann")
        memory.update(name, text=f"Zanthropy{name}")
    lines = lines_of(lambda: memory.forget("first"))
    die_after(int(lines * share), lambda: memory.forget("second"))
os._exit(9)
"""
)


@pytest.mark.parametrize("places", [12, pytest.param(100, marks=pytest.mark.kit)])
def test_a_process_that_dies_while_it_forgets(tmp_path: Path, start_script: StartScript, places: int) -> None:
    """Whoever opens the store next finds the item as it was, or nothing of it in any file, whichever line was last."""
    outcomes = set()
    for number in range(1, places):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "notes.db"
        assert start_script(_KILLED, path, number / places).wait(60) == 9
        with devmem.open(path, embedding=None) as memory:
            outcomes.add(len(memory))
            if len(memory):
                assert [version.item.text for version in memory.history("second")] == [
                    "Quillfeathersecond",
                    "Zanthropysecond",
                ]
                assert [hit.id for hit in memory.search("Zanthropysecond", user="ann")] == ["second"]
                assert memory.forget("second").items == 1
            assert (len(memory), list(memory.history("second"))) == (0, [])
            assert not memory.search("Quillfeathersecond Zanthropysecond")
        assert left_in(folder, "Quillfeather", "Zanthropy") == set(), number
        assert not list(folder.glob("*.part"))
    assert outcomes == {0, 1}, "some died before it was decided, some after"


def test_of_two_erasures_of_an_item_the_first_counts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the other one deletes it first."""
    path, counts = tmp_path / "notes.db", list[int]()
    begin = SqliteCollection.begin_erasure

    def begin_beside_another(self: SqliteCollection, *request: Any) -> Any:
        plan = begin(self, *request)
        with monkeypatch.context() as patched:
            patched.setattr(SqliteCollection, "begin_erasure", begin)
            with devmem.open(path, embedding=None) as other:
                counts.append(other.forget("a").items)
        return plan

    with devmem.open(path, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        with monkeypatch.context() as patched:
            patched.setattr(SqliteCollection, "begin_erasure", begin_beside_another)
            counts.append(memory.forget("a").items)
        assert len(memory) == 0
    assert counts == [0, 1]


_STORM = """
import sys
import devmem
where, writer = sys.argv[1:]
with devmem.open(where, embedding=None) as memory:
    sys.stdin.readline()
    for n in range(2):
        for text in ("before", f"Secret{writer}x{n}"):
            memory.add(text, id=f"item-{writer}-{n}")
        assert memory.forget(f"item-{writer}-{n}").items == 1
        # The same for all: they wait for each other.
        memory.add(f"Secret{writer}x{n}", id="shared")
        assert (forgotten := memory.forget("shared")).items in (0, 1), forgotten
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


def test_a_run_leaves_neither_name_nor_actor_where_everything_in_it_is_erased(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("stays")
        for run, text, is_committed in (("Zanthropy", "Quillfeather", False), ("Xylotomy", "Numbles", True)):
            with acting_as("Wobbegong"):
                pending = memory.run(run)
                pending.memory.add(text, user="ann")
            if is_committed:
                memory.commit(run)
        receipt = memory.forget(user="ann", verify=True)
        assert receipt.residues == ()
        assert memory.runs() == []
        assert left_in(tmp_path, "Quillfeather", "Zanthropy", "Wobbegong", "Xylotomy", "Numbles") == set()


def test_an_erasure_that_was_refused_leaves_everything(tmp_path: Path) -> None:
    """Whoever is told that nothing was deleted finds everything, now and after opening again."""
    path = tmp_path / "notes.db"
    with closing(SqliteCollection(path, busy_timeout=0.05)) as collection:
        for text in ("Quillfeather", "Zanthropy"):
            collection.add([MemoryItem(id="a", content_summary=text)])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            for delete in (collection.erase, collection.delete):
                with pytest.raises(CollectionBusyError):
                    delete(ids=["a"])
        assert [item.content_summary for item in collection.scan()] == ["Zanthropy"]
    with devmem.open(path, embedding=None) as memory:
        assert [version.item.text for version in memory.history("a")] == ["Quillfeather", "Zanthropy"]
        assert memory.forget("a").items == 1
    assert left_in(tmp_path, "Quillfeather", "Zanthropy") == set()


@settings(max_examples=examples(100))
@given(
    st.lists(st.text(st.sampled_from("abcé"), min_size=1, max_size=11), max_size=6),
    st.text(st.sampled_from("abcdé"), max_size=120),
    st.booleans(),
)
def test_every_word_that_is_in_the_bytes_of_a_file_is_found(words: list[str], text: str, escaped: bool) -> None:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(json.dumps(text).encode() if escaped else text.encode())
        file.flush()
        content = Path(file.name).read_bytes()
        there = {word for word in words if word.encode() in content or json.dumps(word)[1:-1].encode() in content}
        assert words_in(Path(file.name), words) == there


def test_a_snapshot_is_written_again_after_an_erasure_and_holds_nothing_of_it(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        for user in ("ann", "quillfeather"):
            memory.add([f"Note {number} of the harbour." for number in range(300)], user=user)
        memory.search("harbour", user=devmem.ANY)
        memory.forget(user="quillfeather")
        assert not Path(f"{file}.faiss").exists()
    assert Path(f"{file}.faiss").exists()
    assert left_in(tmp_path, "quillfeather") == set()
    with devmem.open(file, embedding=None) as memory:
        assert len(memory.search("harbour", user="ann", limit=300)) == 300
