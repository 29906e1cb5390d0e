"""Examining the small SQLite files beside a collection, read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from devmem.findings import Finding
from devmem.model.file_report import Fact, FileReport, damage

_MESSAGES: Final = 5
"""Maximum number of SQLite's own messages that are reported."""

Look = Callable[[sqlite3.Connection], tuple[Mapping[str, Fact], Sequence[Finding]]]
"""Reads counts and findings; what it raises of SQLite's errors is a finding too."""


def tables_of(path: Path) -> frozenset[str]:
    """Return the names of a file's tables; none where it is no SQLite file, or cannot be read as one."""
    try:
        with closing(_connect(path)) as connection:
            return frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master"))
    except sqlite3.Error:
        return frozenset()


def examine_database(path: Path, kind: str, look: Look) -> FileReport:
    """Examine a file: its structure, and then what `look` reads; damage is reported, not raised."""
    facts: Mapping[str, Fact] = {}
    findings: list[Finding] = []
    try:
        with closing(_connect(path)) as connection:
            rows = connection.execute(f"PRAGMA integrity_check({_MESSAGES})").fetchall()
            findings += [damage(f"structure: {message}") for (message,) in rows if message != "ok"]
            facts, found = look(connection)
            findings += found
    except sqlite3.Error as error:
        findings.append(damage(f"it cannot be read: {error}"))
    return FileReport(path=str(path), kind=kind, facts=facts, findings=findings)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    # A damaged text need not be UTF-8.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection
