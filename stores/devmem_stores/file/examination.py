"""Examining the manifest of a file store beside its index."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from devmem.collections.small_database import examine_database, tables_of
from devmem.collections.sqlite.examination import connect_read_only
from devmem.errors import CollectionDamagedError
from devmem.findings import Finding
from devmem.model.file_report import Fact
from devmem.stores import FileReport, damage, unfinished

SUFFIX: Final = ".manifest"
_TABLES: Final = {"files", "loose"}


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest."""
    return tables_of(path) >= _TABLES


def examine_manifest(path: Path, index: Path | None) -> FileReport:
    """Examine a manifest.

    Args:
        path: the manifest's file.
        index: SQLite file of the index, to compare with; None where it is elsewhere.
    """

    def look(connection: sqlite3.Connection) -> tuple[Mapping[str, Fact], list[Finding]]:
        rows = connection.execute("SELECT name, chunks, ids, problem FROM files ORDER BY name").fetchall()
        (loose,) = connection.execute("SELECT count(*) FROM loose").fetchone()
        facts = {"files": len(rows), "chunks": sum(int(chunks) for _, chunks, _, _ in rows), "loose": loose}
        stored = _stored_ids(index)
        findings = [unfinished(f"{name} could not be indexed: {problem}") for name, _, _, problem in rows if problem]
        for name, chunks, ids, _ in rows:
            findings += _findings(name, chunks, ids, stored)
        if loose:
            findings.append(unfinished(f"{loose:,} chunks are assigned to no file; the next pass settles them"))
        return facts, findings

    return examine_database(path, "manifest of files", look)


def _findings(name: str, chunks: int, ids: str, stored: frozenset[str] | None) -> list[Finding]:
    try:
        named = json.loads(ids)
    except ValueError as error:
        return [damage(f"the record of {name} cannot be read: {error}")]
    if not isinstance(named, list) or len(named) != chunks:
        return [damage(f"the record of {name} has {chunks} chunks, but not as many ids")]
    missing = 0 if stored is None else len(set(named) - stored)
    return [damage(f"{name}: {missing:,} of {chunks:,} chunks are not in the index")] if missing else []


def _stored_ids(index: Path | None) -> frozenset[str] | None:
    """Return the ids of the stored chunks; None where the index cannot be compared with."""
    if index is None or not index.is_file():
        return None
    try:
        with closing(connect_read_only(index)) as connection:
            return frozenset(name for (name,) in connection.execute("SELECT id FROM items"))
    except (CollectionDamagedError, sqlite3.Error):
        # The report of the index says so.
        return None
