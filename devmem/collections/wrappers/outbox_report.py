"""Examining an outbox: the writes that wait, those that were refused, and those that cannot be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from devmem.collections.small_database import examine_database
from devmem.findings import Finding
from devmem.model.file_report import Fact, FileReport, damage, unfinished

_KIND: Final = "outbox"
TABLE: Final = "writes"
"""Table by which an outbox is known."""


def examine_outbox(file: Path, load: Callable[[str], object] = json.loads) -> FileReport:
    """Examine the file of an outbox; `load` raises `ValueError` for a text that is no write of its."""

    def look(connection: sqlite3.Connection) -> tuple[Mapping[str, Fact], list[Finding]]:
        rows = connection.execute("SELECT number, key, body, rejected FROM writes ORDER BY number").fetchall()
        unreadable = [(number, reason) for number, _, body, _ in rows if (reason := _problem(body, load))]
        waiting = [(key, body) for _, key, body, rejected in rows if rejected is None]
        rejected = [(key, why) for _, key, _, why in rows if why is not None]
        facts: dict[str, Fact] = {"waiting": len(waiting), "rejected": len(rejected)}
        if waiting:
            facts |= {"oldest": waiting[0][0], "oldest_time": _time(waiting[0][1])}
        findings = [damage(f"write {number} cannot be read: {reason}") for number, reason in unreadable]
        findings += [damage(f"write {key!r} was refused for good: {why}") for key, why in rejected]
        if waiting:
            findings.append(unfinished(f"{len(waiting):,} writes wait to be delivered, the oldest is {waiting[0][0]}"))
        return facts, findings

    return examine_database(file, _KIND, look)


def _problem(body: object, load: Callable[[str], object]) -> str:
    """Return why a write cannot be read; empty when it can."""
    try:
        load(str(body))
    except ValueError as error:
        return str(error).splitlines()[0]
    return ""


def _time(body: str) -> float | None:
    """Return when a write was made (seconds since the epoch); None where it does not say."""
    try:
        raw = json.loads(body)
    except ValueError:
        return None
    found = raw.get("created_at", raw.get("timestamp")) if isinstance(raw, dict) else None
    return found if isinstance(found, (int, float)) else None
