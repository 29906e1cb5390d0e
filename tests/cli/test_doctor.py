"""`devmem doctor`: what is wrong with a store's file, what can be read of it, and what can be rebuilt."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from .conftest import Devmem, one_paragraph

TEXTS = [f"Ann wrote note number {n} about the launch." for n in range(5)]


@pytest.fixture
def notes(tmp_path: Path, devmem: Devmem) -> Path:
    """A file with five items, embedded by minilm, that no process has open."""
    path = tmp_path / "notes.db"
    devmem("add", path, "-", "--lines", stdin="\n".join(TEXTS))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def change(path: Path, *statements: tuple[str, tuple[object, ...]]) -> None:
    """Change a file behind devmem's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement, values in statements:
            assert connection.execute(statement, values).rowcount != 0
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def examined(devmem: Devmem, path: Path, *options: object, code: int = 0) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(devmem("doctor", path, *options, "--json", code=code).stdout)[0]
    return report


def test_a_sound_file_is_counted_and_left_as_it_is(notes: Path, devmem: Devmem) -> None:
    before = notes.read_bytes()
    report = examined(devmem, notes)
    assert (report["items"], report["passages"], report["vectors"], report["waiting"]) == (5, 5, 5, 0)
    assert report["sound"] is True
    assert "nothing is wrong" in devmem("doctor", notes).stdout
    assert notes.read_bytes() == before
    assert examined(devmem, notes, "--fix")["repaired"] == []


def test_an_item_that_cannot_be_read_is_reported_and_the_others_are_saved(
    notes: Path, devmem: Devmem, tmp_path: Path
) -> None:
    change(notes, ("UPDATE items SET body = ? WHERE row = 2", ('{"id": 7}',)))
    before = notes.read_bytes()
    result = devmem("doctor", notes, "--salvage", tmp_path / "saved.json", code=1)
    assert "error: row 2 cannot be read: content_summary: " in result.stderr
    assert "4 items written to" in result.stderr
    assert notes.read_bytes() == before
    devmem("import", tmp_path / "new.db", tmp_path / "saved.json")
    shown = json.loads(devmem("list", tmp_path / "new.db", "--json").stdout)
    assert sorted(item["text"] for item in shown) == [TEXTS[n] for n in (0, 2, 3, 4)]
    refused = devmem("doctor", notes, "--salvage", tmp_path / "saved.json", code=2)
    assert "already exists and was not changed" in one_paragraph(refused)


def test_nothing_waits_where_no_model_is_configured(devmem: Devmem, tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    team = tmp_path / "team.yaml"
    team.write_text("memory: [{name: notes, type: simple, config: {memory_path: words.db, embedding: null}}]")
    devmem("add", team, "tea at three")
    assert examined(devmem, path)["waiting"] == 0
    assert "0 waiting" in devmem("doctor", path).stdout


def test_orphans_and_leftovers_are_put_right(notes: Path, devmem: Devmem) -> None:
    change(
        notes,
        ("UPDATE passages SET row = 99 WHERE passage = 2", ()),
    )
    leftover = notes.with_name(f"{notes.name}.{'0' * 32}.part")
    leftover.write_bytes(b"half")
    found = devmem("doctor", notes, code=1)
    for told in ("1 passages without an item", "1 item without terms", ".part"):
        assert told in found.stderr
    report = examined(devmem, notes, "--fix")
    assert len(report["repaired"]) == 3
    assert not leftover.exists()
    assert TEXTS[1] in devmem("search", notes, "note number 1").stdout
    assert examined(devmem, notes)["sound"] is True


def test_a_file_with_a_damaged_structure_is_never_changed(notes: Path, devmem: Devmem, tmp_path: Path) -> None:
    """Whatever page is hit, the doctor ends in order; what it saves is whole, and the file keeps its bytes.

    Where the table of tables is hit, nothing can be read at all.
    """
    original = notes.read_bytes()
    with closing(sqlite3.connect(notes)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        schema = {page - 1 for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'")}
    hit = 0
    for page in range(len(original) // size):
        damaged = bytearray(original)
        damaged[page * size : page * size + 64] = b"\xff" * 64
        path = tmp_path / f"damaged-{page}.db"
        path.write_bytes(damaged)
        if page in schema:
            devmem("doctor", path, code=2)
            assert path.read_bytes() == bytes(damaged)
            continue
        out = tmp_path / f"saved-{page}.json"
        result = devmem("doctor", path, "--salvage", out, "--json", code=1)
        (report,) = json.loads(result.stdout)
        assert report["sound"] is False
        if any(each["message"].startswith("structure: ") for each in report["findings"]):
            hit += 1
            assert "it was left unchanged" in one_paragraph(devmem("doctor", path, "--fix", code=2))
        saved = json.loads(out.read_text(encoding="utf-8"))
        assert {item["content_summary"] for item in saved["items"]} <= set(TEXTS)
        assert path.read_bytes() == bytes(damaged)
    assert hit > 5


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"not a database" * 1000, "cannot be read at all"), (b"", "is not a file of devmem")],
)
def test_what_is_no_store_is_one_paragraph(tmp_path: Path, devmem: Devmem, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.db"
    if content is not None:
        path.write_bytes(content)
    assert said in one_paragraph(devmem("doctor", path, code=2))
