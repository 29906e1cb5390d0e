"""A durable outbox: writes that their receiver has not taken yet, in order, each under a key."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar

from filelock import FileLock, Timeout

from devmem.encryption import connect
from devmem.errors import CollectionClosedError, Finding, OutboxError, OutboxFullError
from devmem.model.results import Fact, FileReport, damage, unfinished
from devmem.storage.erasure import Residue
from devmem.storage.sidecar_db import PoolClosedError, SidecarDb, examine_database, write_transaction
from devmem.text.files import OWNER_ONLY

_KIND: Final = "outbox"
OUTBOX_TABLE: Final = "writes"
"""Table by which an outbox is known."""


def examine_outbox(file: Path, load: Callable[[str], object] = json.loads) -> FileReport:
    """Examine the file of an outbox; `load` raises `ValueError` for a text that is not one of its writes."""

    def look(connection: sqlite3.Connection) -> tuple[Mapping[str, Fact], list[Finding]]:
        rows = connection.execute("SELECT number, key, body, rejected FROM writes ORDER BY number").fetchall()
        unreadable = [(number, reason) for number, _, body, _ in rows if (reason := _problem(body, load))]
        waiting = [(key, body) for _, key, body, rejected in rows if rejected is None]
        rejected = [(key, why) for _, key, _, why in rows if why is not None]
        facts: dict[str, Fact] = {"waiting": len(waiting), "rejected": len(rejected)}
        if waiting:
            facts |= {"oldest": waiting[0][0], "oldest_time": _time(waiting[0][1])}
        findings = [damage(f"write {number} cannot be read: {reason}") for number, reason in unreadable]
        findings += [damage(f"write {key!r} was refused permanently: {why}") for key, why in rejected]
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


T = TypeVar("T")
R = TypeVar("R")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS writes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL,
    maybe_sent INTEGER NOT NULL DEFAULT 0,
    rejected TEXT
)
"""
_PAGE: Final = 256
_LIMIT: Final = 100_000
_LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Generic[T]):
    """A write that waits."""

    key: str
    value: T
    maybe_sent: bool = False
    """Whether an earlier attempt may have reached the receiver."""


class Outbox(Generic[T]):
    """Writes in the order in which they came, in a SQLite file; safe to use from several threads and processes.

    A key that is there already is not put in again. The file is made by the first write.
    """

    def __init__(
        self, file: Path | None, *, dump: Callable[[T], str], load: Callable[[str], T], limit: int = _LIMIT
    ) -> None:
        """Name the file; nothing is opened yet.

        Args:
            file: where the writes wait; None keeps them for this process only.
            dump: makes the text that is stored of a write.
            load: makes the write of its text again; raises `ValueError` for any other text.
            limit: maximum number of entries, rejected ones included.
        """
        self.file: Final = file
        self._dump, self._load, self._limit = dump, load, limit
        self._db = SidecarDb(file, _prepare)
        self._turn = threading.Lock()
        self._process_turn = FileLock(f"{file}.lock", mode=OWNER_ONLY, thread_local=False) if file else None

    @property
    def place(self) -> str:
        """Where the writes wait, for messages."""
        return str(self.file) if self.file else "this process's memory"

    def put(self, values: Mapping[str, T]) -> None:
        """Append writes under their keys, all or none; they are durable when this returns.

        Raises:
            OutboxFullError: there is no room for them.
            OutboxError: the file cannot be used.
        """
        rows = [(key, self._dump(value)) for key, value in values.items()]

        def insert(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR IGNORE INTO writes (key, body) VALUES (?, ?)", rows)
            if db.execute("SELECT count(*) FROM writes").fetchone()[0] > self._limit:
                raise OutboxFullError(self.place, self._limit)

        self._run(lambda db: write_transaction(db, insert, db))

    def waiting(self) -> int:
        """Count the writes that are still to be sent."""
        return self._count("SELECT count(*) FROM writes WHERE rejected IS NULL")

    def rejected(self) -> int:
        """Count the writes that the receiver refused permanently; they stay until they are removed."""
        return self._count("SELECT count(*) FROM writes WHERE rejected IS NOT NULL")

    def _count(self, query: str) -> int:
        return 0 if self._db.is_absent else int(self._run(lambda db: db.execute(query).fetchone())[0])

    def oldest(self, limit: int) -> list[Entry[T]]:
        """Return the writes that are to be sent next, in order; one that cannot be read is rejected."""
        found: list[Entry[T]] = []
        while not found and (rows := self._rows(limit, after=0)):
            found = [entry for row in rows if (entry := self._entry(*row)) is not None]
        return found

    def entries(self, *, newest_first: bool = False, rejected: bool = False) -> Iterator[Entry[T]]:
        """Yield every write that waits, in order, and the rejected ones too if wanted; read a page at a time."""
        edge = _LAST if newest_first else 0
        while rows := self._rows(_PAGE, after=edge, newest_first=newest_first, rejected=rejected):
            yield from (entry for row in rows if (entry := self._entry(*row)) is not None)
            edge = rows[-1][0]

    def _rows(
        self, limit: int, *, after: int, newest_first: bool = False, rejected: bool = False
    ) -> list[tuple[int, str, str, int]]:
        if self._db.is_absent:
            return []
        query = "SELECT number, key, body, maybe_sent FROM writes WHERE (? OR rejected IS NULL) AND "
        query += "number < ? ORDER BY number DESC LIMIT ?" if newest_first else "number > ? ORDER BY number LIMIT ?"
        return self._run(lambda db: db.execute(query, (rejected, after, limit)).fetchall())

    def _entry(self, _number: int, key: str, body: str, maybe_sent: int) -> Entry[T] | None:
        try:
            return Entry(key=key, value=self._load(body), maybe_sent=bool(maybe_sent))
        except ValueError as error:
            self.reject(key, f"the entry cannot be read: {error}")
            return None

    def get(self, keys: Iterable[str]) -> list[Entry[T]]:
        """Return the writes of the keys that wait here, in the order of `keys`."""
        if self._db.is_absent:
            return []
        query = "SELECT number, key, body, maybe_sent FROM writes WHERE key = ? AND rejected IS NULL"
        rows = self._run(lambda db: [row for key in keys if (row := db.execute(query, (key,)).fetchone())])
        return [entry for row in rows if (entry := self._entry(*row)) is not None]

    def rejection(self, key: str) -> str | None:
        """Return why the receiver refused a write; empty while it waits, None when it is not here."""
        row = self._run(lambda db: db.execute("SELECT rejected FROM writes WHERE key = ?", (key,)).fetchone())
        return None if row is None else row[0] or ""

    def mark(self, keys: Iterable[str], *, maybe_sent: bool) -> None:
        """Record whether writes may have reached the receiver."""
        rows = [(int(maybe_sent), key) for key in keys]
        self._change("UPDATE writes SET maybe_sent = ? WHERE key = ?", rows)

    def reject(self, key: str, reason: str) -> None:
        """Set a write aside that its receiver refuses permanently, so that it holds back no other."""
        self._change("UPDATE writes SET rejected = ? WHERE key = ?", [(reason or "refused", key)])

    def readmit(self) -> None:
        """Have the rejected writes sent again, each in its old place."""
        if not self._db.is_absent:
            self._run(lambda db: db.execute("UPDATE writes SET rejected = NULL"))

    def remove(self, keys: Iterable[str]) -> int:
        """Forget writes; return the number of those that were here."""
        return 0 if self._db.is_absent else self._change("DELETE FROM writes WHERE key = ?", [(key,) for key in keys])

    def _change(self, statement: str, rows: Sequence[tuple[str | int, ...]]) -> int:
        def change(db: sqlite3.Connection) -> int:
            return write_transaction(db, lambda: db.executemany(statement, rows).rowcount)

        return max(self._run(change), 0)

    def rewrite(self) -> list[Residue]:
        """Rewrite the file, so that nothing of what was removed is left in it; return what could not be."""
        with self._translated():
            return self._db.rewrite()

    @contextmanager
    def turn(self, patience: float) -> Iterator[bool]:
        """Take the right to send, which one thread of one process has; yield whether it came within `patience` seconds.

        Raises:
            OutboxError: the lock file cannot be used.
        """
        if not self._turn.acquire(timeout=patience):
            yield False
            return
        try:
            with self._turn_of_the_process(patience) as mine:
                yield mine
        finally:
            self._turn.release()

    @contextmanager
    def _turn_of_the_process(self, patience: float) -> Iterator[bool]:
        if self._process_turn is None or self.file is None:
            yield True
            return
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self._process_turn.acquire(timeout=patience)
        except Timeout:
            yield False
            return
        except OSError as error:
            raise OutboxError(self.place, str(error)) from error
        try:
            yield True
        finally:
            self._process_turn.release()

    def examine(self) -> Iterator[FileReport]:
        """Yield the report of the file, read-only; nothing where there is none."""
        if self.file is not None and self.file.exists():
            yield examine_outbox(self.file, self._load)

    def close(self) -> None:
        """Release the file; the outbox cannot be used afterwards. Closing twice is allowed."""
        self._db.close()

    def remove_file(self) -> None:
        """Close the outbox and delete its file, which no other process may be using."""
        self.close()
        if self.file is not None:
            for file in (self.file, Path(f"{self.file}.lock")):
                file.unlink(missing_ok=True)

    def _run(self, action: Callable[[sqlite3.Connection], R]) -> R:
        with self._translated():
            return self._db.run(action)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolClosedError as error:
            raise CollectionClosedError(self.place, "the outbox was closed.") from error
        except (sqlite3.Error, OSError) as error:
            raise OutboxError(self.place, str(error)) from error


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA synchronous = FULL")
    db.execute(_SCHEMA)


def outbox_bodies(file: Path) -> list[str]:
    """Return the texts of everything in an outbox's file, in order; the file is not changed.

    Raises:
        OutboxError: it is not an outbox, or cannot be read.
    """
    try:
        with closing(connect(file, uri=f"{file.absolute().as_uri()}?mode=ro")) as db:
            return [body for (body,) in db.execute("SELECT body FROM writes ORDER BY number")]
    except sqlite3.Error as error:
        raise OutboxError(file, f"it cannot be read as an outbox: {error}") from error


Send = Callable[[Sequence[Entry[T]]], Sequence[R]]
"""Hands writes to their receiver, all or none of them; returns one result for each."""


def _always(_error: Exception) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """Properties of a receiver that decide how it is written to."""

    batch: int = 1
    """Maximum number of writes handed over at once; 1 where single writes are refused."""
    failures: tuple[type[Exception], ...] = (Exception,)
    """Errors that end a delivery; what was not taken stays and is sent first the next time."""
    refusals: tuple[type[Exception], ...] = ()
    """Errors by which the receiver refuses a write permanently: it is set aside, and the others go on."""
    idempotent: bool = True
    """Whether the receiver stores a repeated write once. Otherwise a write is marked before it is sent, so that after
    a crash the receiver can be asked for it first (`Entry.maybe_sent`)."""
    may_have_arrived: Callable[[Exception], bool] = _always
    """Whether a write that failed with this error may have reached the receiver."""


@dataclass(slots=True, kw_only=True)
class Delivery(Generic[R]):
    """Result of one pass through an outbox."""

    results: dict[str, R] = field(default_factory=dict)
    """Results of the writes that were taken, by key."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """Errors of the writes that were set aside, by key."""
    stopped_by: Exception | None = None
    """Why it ended before everything was sent."""


def deliver(outbox: Outbox[T], send: Send[T, R], policy: DeliveryPolicy, *, patience: float) -> Delivery[R]:
    """Send what waits, oldest first, until nothing waits or the receiver fails.

    Args:
        outbox: the writes.
        send: hands them over.
        policy: how the receiver is written to.
        patience: seconds to wait for another thread or process that is sending.

    Raises:
        OutboxError: the outbox itself cannot be used.
    """
    delivery: Delivery[R] = Delivery()
    with outbox.turn(patience) as mine:
        if not mine:
            delivery.stopped_by = OutboxError(outbox.place, "another process is sending the writes that wait")
            return delivery
        while entries := outbox.oldest(policy.batch):
            keys = [entry.key for entry in entries]
            try:
                results = _sent(outbox, entries, send, policy)
            except policy.refusals as error:
                for key in keys:
                    outbox.reject(key, str(error))
                    delivery.refused[key] = error
            except policy.failures as error:
                delivery.stopped_by = error
                break
            else:
                # After a kill right before this the receiver has them too, and takes them once.
                outbox.remove(keys)
                delivery.results.update(zip(keys, results, strict=True))
    return delivery


def _sent(outbox: Outbox[T], entries: Sequence[Entry[T]], send: Send[T, R], policy: DeliveryPolicy) -> Sequence[R]:
    fresh = [] if policy.idempotent else [entry.key for entry in entries if not entry.maybe_sent]
    if fresh:
        outbox.mark(fresh, maybe_sent=True)
    try:
        return send(entries)
    except policy.failures as error:
        if fresh and not policy.may_have_arrived(error):
            outbox.mark(fresh, maybe_sent=False)
        raise
