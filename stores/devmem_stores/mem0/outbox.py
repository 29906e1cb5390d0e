"""Writes that mem0 has not taken yet: a SQLite file in which each of them stays until it has."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeVar

from filelock import FileLock, Timeout

from devmem_stores.mem0.backend import Write
from devmem_stores.mem0.errors import Mem0Error, Mem0OutboxError
from devmem_stores.mem0.filters import Ids

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS writes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    maybe_sent INTEGER NOT NULL DEFAULT 0,
    rejected TEXT
)
"""
_BUSY_SECONDS: Final = 30.0


class Outbox:
    """Unsent writes in the order in which they came; safe to use from several threads and processes.

    A write is noted as perhaps sent before it is sent, so that after a crash it is looked for before it is sent again.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._process_lock = FileLock(f"{file}.lock", thread_local=False)
        self._opened: sqlite3.Connection | None = None

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                if self._opened is None:
                    self._opened = self._open()
                return action(self._opened)
            except (sqlite3.Error, OSError) as error:
                raise Mem0OutboxError("use the outbox", f"{self.file}: {error}") from error

    def _open(self) -> sqlite3.Connection:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        opened = sqlite3.connect(self.file, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        # What people said is in it.
        self.file.chmod(0o600)
        opened.execute("PRAGMA synchronous = FULL")
        opened.execute(_SCHEMA)
        return opened

    def put(self, write: Write) -> None:
        """Keep a write; it is durable when this returns."""
        body = json.dumps(asdict(write))
        self._run(lambda db: db.execute("INSERT OR IGNORE INTO writes (key, body) VALUES (?, ?)", (write.key, body)))

    def waiting(self) -> int:
        """Count the writes that are still to be sent."""
        return self._count("rejected IS NULL")

    def rejected(self) -> int:
        """Count the writes that mem0 refused for good; they stay in the file."""
        return self._count("rejected IS NOT NULL")

    def _count(self, condition: str) -> int:
        if self._opened is None and not self.file.exists():
            return 0
        # The conditions are the two above.
        row = self._run(lambda db: db.execute(f"SELECT count(*) FROM writes WHERE {condition}").fetchone())  # noqa: S608
        return int(row[0])

    @contextmanager
    def turn(self, patience: float) -> Iterator[bool]:
        """Take the right to send, which only one thread of one process has; gives whether it came within the time."""
        if not self._sending.acquire(timeout=patience):
            yield False
            return
        try:
            with self._process_turn(patience) as mine:
                yield mine
        finally:
            self._sending.release()

    @contextmanager
    def _process_turn(self, patience: float) -> Iterator[bool]:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._process_lock.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        except OSError as error:
            raise Mem0OutboxError("use the outbox", f"{self.file}: {error}") from error
        try:
            yield True
        finally:
            self._process_lock.release()

    def oldest(self) -> tuple[Write, bool] | None:
        """Give the write that is to be sent next, and whether it perhaps was sent before."""
        query = "SELECT body, maybe_sent FROM writes WHERE rejected IS NULL ORDER BY number LIMIT 1"
        row = self._run(lambda db: db.execute(query).fetchone())
        return None if row is None else (_load(row[0]), bool(row[1]))

    def refusal(self, key: str) -> str | None:
        """Say why mem0 refuses a write for good; empty while it waits, None when it is not here (any more)."""
        row = self._run(lambda db: db.execute("SELECT rejected FROM writes WHERE key = ?", (key,)).fetchone())
        return None if row is None else row[0] or ""

    def note_sending(self, key: str, *, maybe_sent: bool) -> None:
        """Note whether a write perhaps reached mem0."""
        self._run(lambda db: db.execute("UPDATE writes SET maybe_sent = ? WHERE key = ?", (int(maybe_sent), key)))

    def remove(self, key: str) -> None:
        """Forget a write that mem0 has taken."""
        self._run(lambda db: db.execute("DELETE FROM writes WHERE key = ?", (key,)))

    def set_aside(self, key: str, error: Mem0Error) -> None:
        """Keep a write that mem0 refuses for good out of the others' way."""
        self._run(lambda db: db.execute("UPDATE writes SET rejected = ? WHERE key = ?", (str(error), key)))

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None


def _load(body: str) -> Write:
    raw = json.loads(body)
    return Write(**{**raw, "ids": Ids(**raw["ids"])})
