"""Work that is not done yet: the table `pending`, in the database of a store or in a file beside a workflow's stores.

A row has a kind, such as a write that failed or a record to forward, the place for which it waits, a key within these,
and its payload. An `Outbox` is the rows of one kind and place in such a file, and `deliver` sends them to their
receiver, in order and each once.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, TypeVar
from urllib.parse import quote

from filelock import FileLock, Timeout

from devmem.encryption.files import connect
from devmem.errors import CollectionClosedError, EncryptionError, Finding, OutboxError, OutboxFullError, PoolClosedError
from devmem.model.results import Fact, FileReport, damage, unfinished
from devmem.storage.connections import SidecarDb, connect_to_examine, write_transaction
from devmem.storage.erasure import Residue
from devmem.storage.protocol import Durability
from devmem.text.files import OWNER_ONLY

STATE_FILE: Final = "state.db"
"""Name of the file of pending work in the folder of a session, or of all of them."""
PENDING_TABLE: Final = """
CREATE TABLE IF NOT EXISTS pending(
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, place TEXT NOT NULL DEFAULT '', key TEXT NOT NULL,
    payload TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, refused TEXT,
    UNIQUE (kind, place, key)
);
"""
WRITE, DELIVERY, RECORD = "write", "delivery", "record"
"""Kinds: a write of the manager that a store did not take, one that a store could not send on, a recorded call."""
_PAGE: Final = 256
_LIMIT: Final = 100_000
_LAST: Final = 2**63 - 1
_TRIES_TOGETHER: Final = 2
"""Failed attempts at a batch after which its entries are sent one by one."""
_REASONS: Final = 5
"""Maximum number of refused entries that a report names."""
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Generic[T]):
    """A payload that waits."""

    key: str
    value: T
    attempts: int = 0
    """Number of earlier attempts that may have reached the receiver."""


class Outbox(Generic[T]):
    """Entries that wait for one place, in the order in which they came; safe to use from several threads and processes.

    A key that is there already is not put in again. The file is made by the first write.
    """

    def __init__(
        self,
        file: Path | None,
        *,
        dump: Callable[[T], str],
        load: Callable[[str], T],
        kind: str = DELIVERY,
        place: str = "",
        limit: int = _LIMIT,
        durability: Durability = "full",
    ) -> None:
        """Name the file; nothing is opened yet.

        Args:
            file: SQLite file with the table; None keeps the entries for this process only.
            dump: makes the payload.
            load: makes the value of its payload again; raises `ValueError` for any other text.
            kind: kind of the work.
            place: name of the store for which it waits.
            limit: maximum number of entries, refused ones included.
            durability: what an entry survives once it is put.
        """
        self.file: Final = file
        self._dump, self._load, self._limit, self._own = dump, load, limit, (kind, place)
        self._db = SidecarDb(file, PENDING_TABLE, durability=durability)
        self._turn = threading.Lock()
        lock = f"{file}.{kind}.{quote(place, safe='')}.lock"
        self._process_turn = FileLock(lock, mode=OWNER_ONLY, thread_local=False) if file else None
        self._room = 0
        """Number of entries that can be put before they are counted again."""

    @property
    def location(self) -> str:
        """Where the entries wait, for messages."""
        return str(self.file) if self.file else "this process's memory"

    def put(self, values: Mapping[str, T]) -> None:
        """Append values under their keys, all or none; they are durable when this returns.

        Raises:
            OutboxFullError: there is no room for them.
            OutboxError: the file cannot be used.
        """
        rows = [(*self._own, key, self._dump(value)) for key, value in values.items()]

        def put(db: sqlite3.Connection) -> None:
            if len(rows) > self._room:
                (count,) = db.execute(f"SELECT count(*) {_OWN}", self._own).fetchone()
                self._room = self._limit - int(count)
            if len(rows) > self._room:
                raise OutboxFullError(self.location, self._limit)
            db.executemany(_INSERT, rows)

        if rows:
            self._run(lambda db: write_transaction(db, put))
            self._room -= len(rows)

    def put_payload(self, key: str, payload: str) -> None:
        """Append one payload unchanged, whatever the limit says; it is durable when this returns.

        Raises:
            OutboxError: the file cannot be used.
        """
        # One statement is a transaction by itself.
        self._run(lambda db: db.execute(_INSERT, (*self._own, key, payload)))

    def held(self) -> int:
        """Return the number of all entries, refused ones included."""
        return self._count(f"SELECT count(*) {_OWN}")

    def waiting(self, until: int = _LAST) -> int:
        """Return the number of entries that are still to be sent, of those up to a number."""
        return self._count(f"SELECT count(*) {_OWN} AND refused IS NULL AND number <= {until}")

    def last_number(self) -> int:
        """Return the number of the entry that came last; 0 without any."""
        return self._count(f"SELECT coalesce(max(number), 0) {_OWN}")

    def refused(self) -> int:
        """Return the number of entries that the receiver refused permanently; they stay until they are removed."""
        return self._count(f"SELECT count(*) {_OWN} AND refused IS NOT NULL")

    def waiting_bytes(self) -> int:
        """Return the size of the payloads that are still to be sent."""
        return self._count(f"SELECT coalesce(sum(length(payload)), 0) {_OWN} AND refused IS NULL")

    def _count(self, query: str) -> int:
        return 0 if self._db.is_absent else int(self._run(lambda db: db.execute(query, self._own).fetchone())[0])

    def oldest(self, limit: int) -> list[Entry[T]]:
        """Return the entries that are to be sent next, in order; one that cannot be read is refused."""
        found: list[Entry[T]] = []
        while not found and (rows := self._rows(limit)):
            found = [entry for row in rows if (entry := self._entry(*row[1:])) is not None]
        return found

    def entries(self, *, refused: bool = False) -> Iterator[Entry[T]]:
        """Yield every entry that waits, in order, and the refused ones too if wanted; read a page at a time."""
        last = 0
        while rows := self._rows(_PAGE, after=last, refused=refused):
            yield from (entry for row in rows if (entry := self._entry(*row[1:])) is not None)
            last = rows[-1][0]

    def _rows(self, limit: int, *, after: int = 0, refused: bool = False) -> list[tuple[int, str, str, int]]:
        if self._db.is_absent:
            return []
        query = f"SELECT number, key, payload, attempts {_OWN} AND (? OR refused IS NULL) AND number > ? "
        query += "ORDER BY number LIMIT ?"
        return self._run(lambda db: db.execute(query, (*self._own, refused, after, limit)).fetchall())

    def _entry(self, key: str, payload: str, attempts: int) -> Entry[T] | None:
        try:
            return Entry(key=key, value=self._load(payload), attempts=attempts)
        except ValueError as error:
            self.refuse(key, f"the entry cannot be read: {error}")
            return None

    def refusal(self, key: str) -> str | None:
        """Return why the receiver refused an entry; empty while it waits, None when it is not here."""
        query = f"SELECT refused {_OWN} AND key = ?"
        row = self._run(lambda db: db.execute(query, (*self._own, key)).fetchone())
        return None if row is None else row[0] or ""

    def count_attempt(self, keys: Iterable[str], *, by: int = 1) -> None:
        """Record that an attempt at some entries may have reached the receiver, or, by -1, that it did not."""
        self._change(f"UPDATE pending SET attempts = attempts + {by} {_OF_KEY}", [(*self._own, key) for key in keys])

    def refuse(self, key: str, reason: str) -> None:
        """Set an entry aside that its receiver refuses permanently, so that it holds back no other."""
        self._change(f"UPDATE pending SET refused = ? {_OF_KEY}", [(reason or "refused", *self._own, key)])

    def readmit(self) -> None:
        """Have the refused entries sent again, each in its old place."""
        if self.refused():
            self._run(lambda db: db.execute(f"UPDATE pending SET refused = NULL {_OF_OWN}", self._own))

    def remove(self, keys: Iterable[str]) -> int:
        """Forget entries; return the number of those that were here."""
        if self._db.is_absent:
            return 0
        return self._change(f"DELETE FROM pending {_OF_KEY}", [(*self._own, key) for key in keys])

    def _change(self, statement: str, rows: Sequence[tuple[str | int, ...]]) -> int:
        changed = self._run(lambda db: write_transaction(db, lambda db: db.executemany(statement, rows).rowcount))
        return max(changed, 0)

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
        with ExitStack() as held:
            is_mine = self._turn.acquire(timeout=patience)
            if is_mine:
                held.callback(self._turn.release)
            if is_mine and self._process_turn is not None and self.file is not None:
                try:
                    self.file.parent.mkdir(parents=True, exist_ok=True)
                    held.enter_context(self._process_turn.acquire(timeout=patience))
                except Timeout:
                    is_mine = False
                except OSError as error:
                    raise OutboxError(self.location, str(error)) from error
            yield is_mine

    def close(self) -> None:
        """Release the file; the outbox cannot be used afterwards. Closing twice is allowed."""
        self._db.close()

    def _run(self, action: Callable[[sqlite3.Connection], R]) -> R:
        with self._translated():
            return self._db.run(action)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PoolClosedError as error:
            raise CollectionClosedError(self.location, "the outbox was closed.") from error
        except (sqlite3.Error, OSError, EncryptionError) as error:
            raise OutboxError(self.location, str(error)) from error


_INSERT: Final = "INSERT OR IGNORE INTO pending (kind, place, key, payload) VALUES (?, ?, ?, ?)"
_OF_OWN: Final = "WHERE kind = ? AND place = ?"
_OF_KEY: Final = f"{_OF_OWN} AND key = ?"
_OWN: Final = f"FROM pending {_OF_OWN}"


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A row of the table."""

    number: int
    kind: str
    place: str
    key: str
    payload: str
    refused: str | None


def pending_rows(file: Path, *kinds: str) -> list[PendingRow]:
    """Return the rows of a file, of some kinds or of all, in order; none where there is no file. It is not changed.

    Raises:
        OutboxError: it has no such table, or cannot be read.
    """
    if not file.exists():
        return []
    try:
        with closing(connect(file, uri=f"{file.absolute().as_uri()}?mode=ro")) as db:
            rows = db.execute(
                "SELECT number, kind, place, key, payload, refused FROM pending "
                "WHERE ? = '[]' OR kind IN (SELECT value FROM json_each(?)) ORDER BY number",
                [json.dumps(kinds)] * 2,
            )
            return [PendingRow(*row) for row in rows]
    except sqlite3.Error as error:
        raise OutboxError(file, f"it cannot be read as an outbox: {error}") from error


def remove_rows(file: Path, numbers: Iterable[int]) -> list[Residue]:
    """Remove rows from a file, down to the bytes; return what could not be reached.

    Raises:
        OutboxError: the file cannot be changed.
    """
    gone = [(number,) for number in numbers]
    if not file.exists():
        return []
    with closing(Outbox(file, dump=str, load=str)) as outbox:
        outbox._change("DELETE FROM pending WHERE number = ?", gone)  # noqa: SLF001 - of the same module
        return outbox.rewrite()


def examine_pending(file: Path, place: str | None = None) -> FileReport:
    """Examine a file of pending work: its structure, what waits, for one place or for all, and what was refused."""
    findings: list[Finding] = []
    try:
        with closing(connect_to_examine(file)) as db:
            messages = db.execute(f"PRAGMA integrity_check({_REASONS})").fetchall()
            findings += [damage(f"structure: {message}") for (message,) in messages if message != "ok"]
            found = db.execute(
                "SELECT kind, place, count(*) FILTER (WHERE refused IS NULL), count(refused) FROM pending "
                "WHERE ?1 IS NULL OR place = ?1 GROUP BY kind, place ORDER BY kind, place",
                (place,),
            ).fetchall()
            refused = db.execute(
                "SELECT kind, key, place, refused FROM pending "
                "WHERE refused IS NOT NULL AND (?1 IS NULL OR place = ?1) ORDER BY number",
                (place,),
            ).fetchall()
    except sqlite3.Error as error:
        findings.append(damage(f"it cannot be read: {error}"))
        return FileReport(path=str(file), kind="pending work", findings=findings)
    facts: dict[str, Fact] = {"waiting": sum(row[2] for row in found), "refused": len(refused)}
    findings += [
        unfinished(f"{count:,} of the kind {kind!r} wait for {name or 'the store'}, which is sent them with the next")
        for kind, name, count, _ in found
        if count
    ]
    findings += [
        damage(f"{kind} {key!r} was refused permanently by {name or 'the store'}: {why}")
        for kind, key, name, why in refused[:_REASONS]
    ]
    if len(refused) > _REASONS:
        findings.append(damage(f"and {len(refused) - _REASONS:,} more were refused"))
    return FileReport(path=str(file), kind="pending work", facts=facts, findings=findings)


Send = Callable[[Sequence[Entry[T]]], Sequence[R]]
"""Hands entries to their receiver, all or none of them; returns one result for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """Properties of a receiver that decide how it is written to."""

    batch: int = 1
    """Maximum number of entries handed over at once. Where a batch has failed repeatedly, its entries are sent one by
    one, and those that are refused while others are taken are set aside."""
    failures: tuple[type[Exception], ...] = (Exception,)
    """Errors that end a delivery; what was not taken stays and is sent first the next time."""
    refusals: tuple[type[Exception], ...] = ()
    """Errors by which the receiver refuses a single entry permanently: it is set aside, and the others go on."""
    idempotent: bool = True
    """Whether the receiver stores a repeated entry once. Otherwise an attempt is counted before it is made, so that
    after a crash the receiver can be asked for the entry first (`Entry.attempts`)."""
    may_have_arrived: Callable[[Exception], bool] = lambda _error: True
    """Whether an entry that failed with this error may have reached the receiver."""


@dataclass(slots=True, kw_only=True)
class Delivery(Generic[R]):
    """Result of one pass through an outbox."""

    results: dict[str, R] = field(default_factory=dict)
    """Results of the entries that were taken, by key."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """Errors of the entries that were set aside, by key."""
    stopped_by: Exception | None = None
    """Why it ended before everything was sent."""
    was_turn: bool = True
    """Whether no other thread or process was sending."""


def deliver(
    outbox: Outbox[T],
    send: Send[T, R],
    policy: DeliveryPolicy,
    *,
    patience: float,
    goes_on: Callable[[], bool] = lambda: True,
) -> Delivery[R]:
    """Send what waits, oldest first, until nothing waits or the receiver fails.

    Args:
        outbox: the entries.
        send: hands them over.
        policy: how the receiver is written to.
        patience: seconds to wait for another thread or process that is sending.
        goes_on: is asked before each batch whether to send it.

    Raises:
        OutboxError: the outbox itself cannot be used.
    """
    delivery: Delivery[R] = Delivery()
    with outbox.turn(patience) as mine:
        if not mine:
            delivery.was_turn = False
            delivery.stopped_by = OutboxError(outbox.location, "another process is sending what waits")
        while delivery.stopped_by is None and goes_on() and (entries := outbox.oldest(policy.batch)):
            singly = len(entries) > 1 and entries[0].attempts >= _TRIES_TOGETHER
            failed: list[tuple[str, Exception]] = []
            for part in [[entry] for entry in entries] if singly else [entries]:
                keys = [entry.key for entry in part]
                try:
                    results = _sent(outbox, part, send, policy)
                except policy.refusals as error:
                    outbox.refuse(keys[0], str(error))
                    delivery.refused[keys[0]] = error
                except policy.failures as error:
                    failed.append((keys[0], error))
                else:
                    # After a kill right before this the receiver has them too, and takes them once.
                    outbox.remove(keys)
                    delivery.results.update(zip(keys, results, strict=True))
            if not singly or len(failed) == len(entries):
                delivery.stopped_by = failed[0][1] if failed else None
                if failed and policy.batch > 1:
                    outbox.count_attempt(entry.key for entry in entries)
                continue
            for key, reason in failed:
                outbox.refuse(key, f"{type(reason).__name__}: {reason}")
                delivery.refused[key] = reason
    return delivery


def _sent(outbox: Outbox[T], entries: Sequence[Entry[T]], send: Send[T, R], policy: DeliveryPolicy) -> Sequence[R]:
    keys = () if policy.idempotent else [entry.key for entry in entries if not entry.attempts]
    if keys:
        outbox.count_attempt(keys)
    try:
        return send(entries)
    except policy.failures as error:
        if keys and not policy.may_have_arrived(error):
            outbox.count_attempt(keys, by=-1)
        raise
