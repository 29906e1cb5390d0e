"""Terms and cues that an older version of the text analysis made are rebuilt when a collection is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pydantic import JsonValue

from devmem import MemoryItem
from devmem.search.indexes.scoring import encode_terms
from devmem.storage import SearchQuery, SqliteCollection
from devmem.storage.sqlite.rows import ITEM_CHECKSUM, define_functions

MANY = 300
"""More than the least number of items for which a snapshot of the indexes is written."""


def found(path: Path, words: str) -> list[str]:
    with closing(SqliteCollection(path)) as collection:
        return [hit.item.id for hit in collection.search(SearchQuery(text=words, limit=3))]


def change(path: Path, statement: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def test_a_word_whose_stored_stem_is_wrong_is_found_again(
    tmp_path: Path, notes: Callable[..., list[MemoryItem]]
) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([*notes(0, MANY), MemoryItem(id="harbour", content_summary="Sailing to the harbour")])
    wrong = encode_terms("sailin to the harbou")
    change(
        path,
        "UPDATE passages SET term_hashes = ?, term_counts = ?, term_length = ?"
        " WHERE row = (SELECT row FROM items WHERE id = 'harbour')",
        (wrong.hashes, wrong.counts, wrong.length),
    )
    assert found(path, "sailing harbours") == []
    assert Path(f"{path}.faiss").exists(), "the indexes' snapshot has the wrong terms too"
    change(path, "UPDATE meta SET value = '2' WHERE key = 'analysis'")
    change(path, "DELETE FROM meta WHERE key = 'checksum'")
    assert found(path, "sailing harbours") == ["harbour"]
    assert found(path, "harbou") == []


def test_cues_of_an_older_version_are_replaced_also_those_of_versions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteCollection(path)) as collection:
        collection.add([MemoryItem(id="ann", content_summary="We went to Porto twice")])
        collection.add([MemoryItem(id="ann", content_summary="I went to Porto three times")])
        metadata: dict[str, JsonValue] = {"kind": "call", "with": ["Ann"]}
        collection.add([MemoryItem(id="ben", content_summary="My cat is called Olaf", event_time=9, metadata=metadata)])
    assert columns(path, "items")[-1][2] == "Ann"
    stored = {table: columns(path, table) for table in ("items", "versions")}
    for table in stored:
        change(path, f"UPDATE {table} SET cues = 0, speaker = NULL")
    change(path, "UPDATE meta SET value = '3' WHERE key = 'analysis'")
    change(path, "DELETE FROM meta WHERE key = 'checksum'")
    damaged = {table: columns(path, table) for table in stored}
    assert found(path, "Olaf") == [], "a row whose columns do not match their checksum is damaged"
    assert {table: columns(path, table) for table in stored} == damaged
    for table in stored:
        seal(path, table)
    change(path, "UPDATE meta SET value = '3' WHERE key = 'analysis'")
    change(path, "DELETE FROM meta WHERE key = 'checksum'")
    assert found(path, "Olaf") == ["ben"]
    assert {table: columns(path, table) for table in stored} == stored


def columns(path: Path, table: str) -> list[tuple[str, int, str | None, int]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT id, cues, speaker, columns_checksum FROM {table} ORDER BY row").fetchall()


def seal(path: Path, table: str) -> None:
    """Renew the checksums of rows that were changed from outside."""
    with closing(sqlite3.connect(path)) as connection, connection:
        define_functions(connection)
        connection.execute(f"UPDATE {table} SET columns_checksum = {ITEM_CHECKSUM}")
