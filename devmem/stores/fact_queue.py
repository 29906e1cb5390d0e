"""The turns whose facts are pending, and counts of the extracted ones; durable beside the store's items.

They are values of the store in its database, or in a SQLite file beside its items where their place keeps items alone.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from devmem.errors import CollectionClosedError, CollectionError, CollectionUnwritableError, Finding
from devmem.model.results import FileReport, damage, unfinished
from devmem.storage.erasure import Residue
from devmem.storage.protocol import StateKey, StateValues
from devmem.storage.sidecar_db import PoolClosedError, SidecarDb, examine_database, write_transaction

SUFFIX: Final = ".facts"
"""End of the name of the file beside a store's own."""
WAITING: Final = "facts.waiting"
_COUNTS: Final = "facts.counts"
_TRIES: Final = 20
"""Attempts at a compare-and-set that others keep winning."""
EXTRACTED, CALLS, FAILURES = "extracted", "calls", "failed calls"
TOKENS_IN, TOKENS_OUT = "input tokens", "output tokens"
_OWN_COUNTS: Final = frozenset({EXTRACTED, CALLS, FAILURES, TOKENS_IN, TOKENS_OUT})
_LEASE: Final = 300.0
"""Seconds for which a turn is left to the process that asks about it: longer than a chat model may take."""
_EXPECTED_FOR: Final = 3_600.0
"""Seconds for which an item may be missing that was announced before it was written, while no run is pending."""

_DAMAGED: Final = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTurn:
    """A turn whose facts are to be extracted."""

    id: str
    """Id of the item."""
    since: float
    """When it was announced: seconds since the epoch, as all times here."""
    tries: int
    """Number of attempts that failed."""
    taken_until: float
    """Until when another process may be asking about it; 0 where none is."""
    value: bytes
    """The stored bytes of the entry, for compare-and-set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactStatus:
    """Counts of a store's turns and facts so far."""

    waiting: int
    """Number of turns whose facts are still to be extracted."""
    extracted: int = 0
    """Number of facts that were stored, new values of known ones included."""
    calls: int = 0
    """Number of calls of the model, including failed ones and those that closing the store interrupted."""
    failures: int = 0
    """Number of calls that failed, or were answered without a text."""
    input_tokens: int = 0
    output_tokens: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Number of statements that were not kept, by reason."""
    failure: str = ""
    """Why the model did not answer last, in this process; empty where it did."""


class FactQueue:
    """Turns that wait, in the order in which they were announced. Safe to use from several threads and processes."""

    def __init__(self, values: Callable[[], StateValues]) -> None:
        """Take what opens the place of the entries."""
        self._values = values

    def announce(self, ids: Iterable[str], now: float) -> None:
        """Put turns into the queue, durable when it returns; one that is there starts again.

        Raises:
            CollectionError: they cannot be written.
        """
        body = _entry(now, 0, 0.0)
        self._values().write({(WAITING, item_id): body for item_id in ids})

    def remove(self, ids: Iterable[str]) -> None:
        """Take turns out of the queue."""
        if gone := {(WAITING, item_id): None for item_id in ids}:
            self._values().write(gone)

    def turns(self) -> list[WaitingTurn]:
        """Return the turns that wait: those that failed least often first, then the oldest."""
        found = (_turn(name, value) for name, value in self._values().scan(WAITING))
        return sorted(found, key=lambda turn: (turn.tries, turn.since, turn.id))

    def take(self, turn: WaitingTurn, now: float) -> WaitingTurn | None:
        """Take a turn for this process alone; None where another one has it, or it has changed."""
        if turn.taken_until > now:
            return None
        key, body = (WAITING, turn.id), _entry(turn.since, turn.tries, now + _LEASE)
        return _turn(turn.id, body) if self._values().write({key: body}, expected={key: turn.value}) else None

    def give_back(self, turn: WaitingTurn, counts: Mapping[str, int], *, failed: bool) -> None:
        """Leave a turn that was taken to others, or to a later attempt, and add to the counts, in one transaction."""
        self._settle(turn, _entry(turn.since, turn.tries + failed, 0.0), counts)

    def finish(self, turn: WaitingTurn, counts: Mapping[str, int]) -> None:
        """Take a turn out of the queue and add to the counts, in one transaction.

        One that was announced again meanwhile stays.
        """
        self._settle(turn, None, counts)

    def _settle(self, turn: WaitingTurn, body: bytes | None, counts: Mapping[str, int]) -> None:
        values, key = self._values(), (WAITING, turn.id)
        added = Counter({name: number for name, number in counts.items() if number})
        for _ in range(_TRIES):
            names = [(_COUNTS, name) for name in added]
            there = values.get([key, *names])
            old: dict[StateKey, bytes | None] = {name: there.get(name) for name in names}
            new: dict[StateKey, bytes | None] = {
                name: str(_number(old[name]) + added[name[1]]).encode() for name in names
            }
            own = there.get(key)
            if own == turn.value:
                new[key], old[key] = body, own
            if values.write(new, expected=old):
                return
        raise CollectionError(WAITING, f"the counts of facts were changed by others {_TRIES} times in a row")

    def counts(self) -> Counter[str]:
        """Return the counts so far, by name."""
        return Counter({name: _number(value) for name, value in self._values().scan(_COUNTS)})

    def status(self, failure: str = "") -> FactStatus:
        """Return the counts and the number of turns that wait."""
        counts = self.counts()
        return FactStatus(
            waiting=len(self.turns()),
            extracted=counts[EXTRACTED],
            calls=counts[CALLS],
            failures=counts[FAILURES],
            input_tokens=counts[TOKENS_IN],
            output_tokens=counts[TOKENS_OUT],
            dropped={name: count for name, count in sorted(counts.items()) if name not in _OWN_COUNTS and count},
            failure=failure,
        )

    def rewrite(self) -> Sequence[Residue]:
        """Rewrite the file of the entries, so that nothing of removed ones is left; a database does so itself."""
        values = self._values()
        return values.rewrite() if isinstance(values, StateFile) else ()


def is_overdue(turn: WaitingTurn, now: float) -> bool:
    """Whether an announced turn that is not stored will hardly be any more."""
    return now - turn.since > _EXPECTED_FOR


def _entry(since: float, tries: int, taken_until: float) -> bytes:
    return json.dumps([since, tries, taken_until]).encode()


def _turn(item_id: str, value: bytes) -> WaitingTurn:
    try:
        since, tries, until = json.loads(value)
        return WaitingTurn(id=item_id, since=float(since), tries=int(tries), taken_until=float(until), value=value)
    except (ValueError, TypeError):
        # A damaged entry still names a turn: it is asked about once more.
        return WaitingTurn(id=item_id, since=_DAMAGED, tries=0, taken_until=0.0, value=value)


def _number(value: bytes | None) -> int:
    try:
        return int(value or b"0")
    except ValueError:
        return 0


def examine_facts(file: Path) -> Iterator[FileReport]:
    """Yield the report of a queue's file, read-only; nothing where there is none."""
    if not file.exists():
        return

    def look(connection: object) -> tuple[dict[str, int], list[Finding]]:
        rows = list(connection.execute(f"SELECT kind, name, value FROM {STATE_TABLE}"))  # type: ignore[attr-defined] # noqa: S608
        counts = {name: _number(bytes(value)) for kind, name, value in rows if kind == _COUNTS}
        waiting = sum(1 for kind, _, _ in rows if kind == WAITING)
        bad = [name for kind, name, value in rows if kind == WAITING and _turn(name, bytes(value)).since == _DAMAGED]
        facts = {"waiting": waiting, EXTRACTED: counts.pop(EXTRACTED, 0)}
        facts["dropped"] = sum(count for name, count in counts.items() if name not in _OWN_COUNTS)
        findings = [damage(f"the entry of the turn {name!r} cannot be read") for name in bad]
        if waiting:
            findings.append(
                unfinished(
                    f"facts of {waiting:,} turn(s) are still to be extracted; `devmem facts --catch-up` extracts them"
                )
            )
        return facts, findings

    yield examine_database(file, "facts", look)


STATE_TABLE: Final = "store_states"
"""Table by which such a file is known."""
_SCHEMA: Final = (
    f"CREATE TABLE IF NOT EXISTS {STATE_TABLE}(kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, "
    "PRIMARY KEY (kind, name)) WITHOUT ROWID"
)
T = TypeVar("T")


class StateFile:
    """The values of one store in a file, or in this process; `StateValues` documents the methods."""

    def __init__(self, file: Path | None) -> None:
        """Name the file, which the first write creates; None keeps the values for this process only."""
        self.file: Final = file
        self._place = str(file) if file else "this process's memory"
        self._db = SidecarDb(file, _prepare)

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there."""
        return {} if self._db.is_absent else self._run(lambda db: _read(db, keys))

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind."""
        if self._db.is_absent:
            return iter(())
        query = f"SELECT name, value FROM {STATE_TABLE} WHERE kind = ? ORDER BY name"  # noqa: S608 - a constant
        found = self._run(lambda db: db.execute(query, (kind,)).fetchall())
        return ((name, bytes(value)) for name, value in found)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction."""

        def write(db: sqlite3.Connection) -> bool:
            there = _read(db, list(expected)) if expected else {}
            if any(there.get(key) != value for key, value in (expected or {}).items()):
                return False
            gone = [key for key, value in values.items() if value is None]
            kept = [(*key, value) for key, value in values.items() if value is not None]
            db.executemany(f"DELETE FROM {STATE_TABLE} WHERE kind = ? AND name = ?", gone)  # noqa: S608 - a constant
            db.executemany(f"INSERT OR REPLACE INTO {STATE_TABLE}(kind, name, value) VALUES (?, ?, ?)", kept)  # noqa: S608
            return True

        return self._run(lambda db: write_transaction(db, write, db))

    def rewrite(self) -> list[Residue]:
        """Rewrite the file, so that nothing of what was deleted is left in it; return what could not be reached."""
        return self._translated(self._db.rewrite)

    def close(self) -> None:
        """Release the file; it cannot be used afterwards. Closing twice is allowed."""
        self._db.close()

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        return self._translated(lambda: self._db.run(action))

    def _translated(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except PoolClosedError as error:
            raise CollectionClosedError(self._place, "the store was closed.") from error
        except (sqlite3.Error, OSError) as error:
            raise CollectionUnwritableError(self._place, str(error)) from error


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(_SCHEMA)


def _read(db: sqlite3.Connection, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    query = f"SELECT value FROM {STATE_TABLE} WHERE kind = ? AND name = ?"  # noqa: S608 - a constant
    found = ((key, db.execute(query, key).fetchone()) for key in keys)
    return {key: bytes(row[0]) for key, row in found if row is not None}
