"""Forgetting permanently: what is removed with an item, which bytes remain, and how items are selected."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import devmem
from devmem import MemoryItem, Scope
from devmem.storage import SqliteCollection
from devmem.stores import Provenance

SECRETS = ("Quillfeather", "Zanthropy", "Wobbegong", "柳暗花明又一村")


def bytes_left(folder: Path) -> list[str]:
    """Return the secrets that any file of a folder holds."""
    content = b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    return [word for word in SECRETS if word.encode() in content]


def item(name: str, text: str, *parents: str, user: str | None = None) -> MemoryItem:
    return MemoryItem(id=name, content_summary=text, scope=Scope(user=user), provenance=Provenance(parents=parents))


def test_nothing_is_left_in_the_files(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("Her code word is Quillfeather.", user="ann", id="first-item")
        memory.update("first-item", "Her code word is Zanthropy now.")
        memory.add("Wobbegong 柳暗花明又一村", user="ann")
        memory.add("The launch is on May 5th.")
        assert memory.search("Zanthropy", user="ann")
        receipt = memory.forget(user="ann", verify=True)
        assert (receipt.items, receipt.residues) == (2, ())
        assert str(tmp_path / "notes.db") in receipt.reached
        assert bytes_left(tmp_path) == []
        assert memory.history("first-item") == []
        assert [record.text for record in memory] == ["The launch is on May 5th."]
    assert bytes_left(tmp_path) == []


def test_the_texts_of_fields_are_not_left_either(tmp_path: Path) -> None:
    """Neither those of now nor those of earlier versions, in rows, terms or the index snapshot."""
    with devmem.open(tmp_path / "notes.db", embedding=None, fields=["title"]) as memory:
        memory.add("a note", id="first-item", metadata={"title": "Quillfeather"})
        memory.update("first-item", metadata={"title": "Zanthropy"})
        memory.update("first-item", metadata={"name": "Wobbegong"}, fields=["name"])
        memory.add("another", metadata={"title": "the launch"})
        assert [record.id for record in memory.search("Wobbegong")] == ["first-item"]
        assert memory.forget("first-item", verify=True).items == 1
        assert bytes_left(tmp_path) == []
    assert bytes_left(tmp_path) == []


def test_what_was_derived_goes_too(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.store.add([item("a", "Quillfeather"), item("b", "a summary", "a"), item("c", "of a summary", "b")])
        memory.store.add([item("d", "something else", "x")])
        assert memory.forget("a", dry_run=True, verify=True).items == 3
        assert memory.forget("a").items == 3
        assert [record.id for record in memory] == ["d"]


def test_a_scoped_handle_leaves_what_others_derived_and_names_it() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.store.add([item("a", "mine", user="ann"), item("b", "a copy", "a", user="bob")])
        receipt = memory.scoped(user="ann").forget("a", verify=True)
        assert receipt.items == 1
        assert [left.place for left in receipt.residues] == ["item b"]


def test_items_are_named_by_text_source_and_run() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.store.add([replace(item("doc", "from a file"), provenance=Provenance(name="report.pdf"))])
        memory.add("The BLUE folder.", id="blue")
        with memory.run("import") as pending:
            pending.add("Written in a run.", id="run")
        assert (
            memory.forget(matching="blue folder", dry_run=True).items
            == memory.forget(matching="blue folder").items
            == 1
        )
        assert memory.forget(source="report.pdf").items == 1
        assert memory.forget(run="import").items == 1
        assert len(memory) == 0
        with pytest.raises(ValueError, match="matching"):
            memory.forget(matching=" ")


@pytest.mark.parametrize("place", ["notes.db", "notes.json"])
@pytest.mark.parametrize(
    ("content", "matching"),
    [
        ({"text": "a note", "metadata": {"title": "Of QUILLFEATHER"}}, "quillfeather"),
        ({"text": "a note", "metadata": {"people": [{"name": "Quillfeather"}]}}, "QUILLFEATHER"),
        ({"role": "user", "name": "Quillfeather", "content": "a note"}, "quillfeather"),
        ({"text": "Zoe\u0308 Quillfeather"}, "zo\u00eb"),
    ],
    ids=["field", "deep", "author", "spelling"],
)
def test_a_text_is_found_among_the_metadata_too(
    tmp_path: Path, place: str, content: dict[str, Any], matching: str
) -> None:
    """The words by which devmem says role and kind are not texts: nobody means every message by `user`."""
    with devmem.open(tmp_path / place, embedding=None) as memory:
        memory.add([content, {"role": "user", "name": "Ann", "content": "another note"}])
        assert memory.forget(matching="user").items == memory.forget(matching="requirement").items == 0
        receipt = memory.forget(matching=matching, verify=True)
        assert (receipt.items, receipt.residues) == (1, ())
        assert [record.text for record in memory] == ["another note"]
    assert bytes_left(tmp_path) == []


def test_a_text_among_the_metadata_of_an_earlier_version_is_forgotten(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        memory.add("a note", id="n", metadata={"title": "Quillfeather"})
        memory.update("n", metadata={"title": None})
        assert memory.forget(matching="quillfeather", verify=True).residues == ()
        assert [version.item.metadata for version in memory.history("n")] == [{}]
    assert bytes_left(tmp_path) == []


def test_expired_items_are_forgotten_too(tmp_path: Path) -> None:
    with closing(SqliteCollection(tmp_path / "notes.db", clock=lambda: 1000.0)) as collection:
        collection.add([replace(item("a", "Quillfeather", user="ann"), expires_at=2000.0)])
    with devmem.open(tmp_path / "notes.db", embedding=None) as memory:
        receipt = memory.forget(user="ann", verify=True)
        assert (receipt.items, receipt.residues) == (1, ())
    assert bytes_left(tmp_path) == []


def test_what_a_reader_still_holds_is_reported_and_finished_later(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with devmem.open(path, embedding=None) as memory:
        memory.add("Quillfeather", id="a")
        # An older state, as a search in another process would hold it.
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        receipt = memory.forget("a", verify=True)
        assert f"{path}-wal" in [left.place for left in receipt.residues]
        connection.execute("ROLLBACK")
        connection.close()
        assert len(memory) == 0
    with devmem.open(path, embedding=None):
        assert bytes_left(tmp_path) == []


def test_forgetting_overwrites_the_texts_in_the_file(tmp_path: Path) -> None:
    """At once: the memory is not closed yet, which searches the file and rewrites one with something left in it."""
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        memory.add([f"a wombat digs burrow number {number}" for number in range(40)])
        secrets = memory.add([f"the quokka sleeps under fern {number}" for number in range(40)])
        memory.update(secrets[0], "the quokka moved to the fourth fern")
        assert memory.forget(*secrets).items == 40
        assert memory.count() == 40
        content = b"".join(each.read_bytes() for each in tmp_path.iterdir() if each.is_file())
    assert b"wombat digs" in content
    assert b"quokka" not in content


def test_forgetting_an_item_reads_no_table_from_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statements are explained as they were run, with their values."""
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **options)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        ids = memory.add([f"note number {n}" for n in range(50)])
        memory.forget(ids[0])
        statements.clear()
        memory.forget(ids[1])
    of_items = [each for each in statements if "items" in each and each.split()[0] in ("SELECT", "UPDATE", "DELETE")]
    with connect(file) as connection:
        # SQLite writes an infinite number as a name, which it cannot read.
        explained = {each: f"EXPLAIN QUERY PLAN {each.replace('Inf', '9e999')}" for each in of_items}
        plans = {each: connection.execute(explained[each]).fetchall() for each in of_items}
    connection.close()
    assert len(plans) > 5
    assert not [each for each, plan in plans.items() if any(step[3] == "SCAN items" for step in plan)]
