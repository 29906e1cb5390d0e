"""Checks of an examined file's rows and attachments against their checksums."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Final

from devmem.collections.attachments import stored_names
from devmem.collections.sqlite.integrity import BODY_CHECKSUM, CHANGE_CHECKSUMS, ITEM_CHECKSUM, PASSAGE_CHECKSUM
from devmem.findings import Finding
from devmem.model.file_report import damage

_PART: Final = 1 << 20
"""Bytes of an attachment that are read at once."""
_CHECKS: Final = {
    "items": f"{ITEM_CHECKSUM} IS NOT columns_checksum",
    "passages": f"{PASSAGE_CHECKSUM} IS NOT checksum",
    "versions": f"{ITEM_CHECKSUM} IS NOT columns_checksum OR {BODY_CHECKSUM} IS NOT body_checksum",
}
_KEYS: Final = {"items": "row", "passages": "passage", "versions": "row"}


def damaged_rows(connection: sqlite3.Connection, table: str) -> list[int]:
    """Return the numbers of a table's rows whose checksum differs; none in a format without checksums.

    Raises:
        sqlite3.DatabaseError: the table cannot be read.
    """
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
    if not columns & {"columns_checksum", "checksum"}:
        return []
    check = _CHECKS[table]
    if "change_checksum" in columns:
        check += f" OR {CHANGE_CHECKSUMS[table]} IS NOT COALESCE(change_checksum, {CHANGE_CHECKSUMS[table]})"
    return [row for (row,) in connection.execute(f"SELECT {_KEYS[table]} FROM {table} WHERE {check}")]


def check_attachments(connection: sqlite3.Connection, folder: Path) -> list[Finding]:
    """Compare the attachments that items and versions name with the files in a folder, by their SHA-256.

    Raises:
        sqlite3.DatabaseError: a table cannot be read.
    """
    named: set[str] = set()
    for table in ("items", "versions"):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            query = f"SELECT CAST(body AS BLOB) FROM {table} WHERE instr(body, '.files/')"
            named.update(name for (body,) in connection.execute(query) for name in stored_names(body.decode("latin-1")))
    return [damage(f"attachment {name}: {problem}") for name in sorted(named) if (problem := _problem(folder / name))]


def _problem(file: Path) -> str:
    """Return why an attachment is not what it was; empty when it is."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while part := content.read(_PART):
                digest.update(part)
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"the file cannot be read: {error.strerror or error}"
    return "" if digest.hexdigest() == file.name else "the file has another content"
