"""Examining the file of a store's states: states that cannot be read or wait for Redis, deletions to be finished."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from devmem.collections.small_database import examine_database, tables_of
from devmem.findings import Finding
from devmem.model.file_report import Fact
from devmem.stores import FileReport, damage, unfinished
from devmem_stores.brain.state import load_state

_TABLES: Final = {"states", "deletions"}


def has_states(path: Path) -> bool:
    """Whether a file is one of states."""
    return tables_of(path) >= _TABLES


def examine_states(path: Path) -> FileReport:
    """Examine the file of a store's states."""
    return examine_database(path, "states of conversations", _look)


def _look(connection: sqlite3.Connection) -> tuple[Mapping[str, Fact], list[Finding]]:
    states = connection.execute("SELECT key, body, waiting FROM states ORDER BY key").fetchall()
    (deletions,) = connection.execute("SELECT count(*) FROM deletions").fetchone()
    waiting = sum(1 for _, _, is_waiting in states if is_waiting)
    findings = [
        damage(f"the state of {key!r} cannot be read: {problem}")
        for key, body, _ in states
        if (problem := _problem(body))
    ]
    if deletions:
        findings.append(unfinished(f"{deletions:,} deletions are not finished; the next opening finishes them"))
    if waiting:
        findings.append(unfinished(f"{waiting:,} states wait for Redis"))
    return {"states": len(states), "deletions": deletions, "waiting": waiting}, findings


def _problem(body: object) -> str:
    """Return why a state cannot be read; empty when it can."""
    if not isinstance(body, bytes):
        return f"it is {type(body).__name__}, not bytes"
    try:
        load_state(body)
    except ValueError as error:
        return str(error).splitlines()[0]
    return ""
