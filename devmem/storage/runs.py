"""Runs of a collection: beginning, ending and listing them, by statements that are the same in every database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from devmem.errors import RunStateError
from devmem.model.items import MemoryItem, SourceKind
from devmem.model.versions import Operation, RunInfo, RunState
from devmem.storage.sql import GONE_SQL, VersionDialect
from devmem.storage.writing import recorded, seconds


def author_of(item: MemoryItem) -> str | None:
    """Return who wrote an item, as far as it says so itself; the name of a file or an import is not a writer."""
    is_place = item.provenance.kind in (SourceKind.FILE, SourceKind.IMPORT)
    return (None if is_place else item.provenance.name) or item.scope.agent


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run as a database records it, with recorded times."""

    run: str
    state: RunState
    actor: str | None = None
    started: int
    ended: int | None = None
    committed: int | None = None

    @classmethod
    def read(cls, columns: Sequence[Any], read_text: Callable[[str | None], str | None]) -> RunRow:
        """Return the run of a row with the columns in this order; `read_text` reverses how texts are stored."""
        run, state, actor, started, ended, committed = columns
        return cls(
            run=read_text(run) or "",
            state=RunState(state),
            actor=read_text(actor),
            started=started,
            ended=ended,
            committed=committed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVersion:
    """A version that a pending run wrote."""

    row: int
    operation: Operation
    base: int | None
    """Row of the current item that it replaces, or deletes; None where there was none."""
    actor: str | None


class VersionTables(ABC):
    """The tables of versions and runs of a collection, within one transaction."""

    def __init__(self, dialect: VersionDialect, location: str) -> None:
        """Take how statements are written, and the place of the collection, for errors."""
        self.dialect, self.location = dialect, location

    @abstractmethod
    def execute(self, statement: str, values: Mapping[str, object] | Sequence[object]) -> list[tuple[Any, ...]]:
        """Run a statement in the dialect; return its rows, if it has any."""

    @abstractmethod
    def text(self, text: str | None) -> str | None:
        """Return a text as a column holds it."""

    @abstractmethod
    def read_text(self, text: str | None) -> str | None:
        """Return the text of a column."""

    @abstractmethod
    def key_of(self, item_id: str) -> object:
        """Return the value of the key column of an item."""

    @abstractmethod
    def many(self, values: Iterable[object]) -> object:
        """Return several values as one that `among` compares with."""

    @abstractmethod
    def item_of(self, row: int, *body: Any) -> MemoryItem:  # noqa: ANN401 - columns of the database
        """Return the item of the columns `body` of the dialect."""

    @abstractmethod
    def lock_runs(self, runs: Iterable[str]) -> None:
        """Let no other transaction write in runs, or end them, until this one ends."""

    @abstractmethod
    def remove_versions(self, condition: str, values: Sequence[object]) -> None:
        """Delete versions permanently, with what only they use."""

    def fetch(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        """Run a shared statement with named values; return its rows, if it has any."""
        return self.execute(self.dialect.statement(statement), values)

    def among(self, column: str, name: str) -> str:
        """Return the condition that a column is one of the values of a name; see `many`."""
        return self.dialect.among.format(column, name)

    def items(self, numbers: Iterable[int]) -> dict[int, MemoryItem]:
        """Return current items and versions by their row numbers."""
        wanted = sorted(set(numbers))
        found: dict[int, MemoryItem] = {}
        for table in ("items", "versions") if wanted else ():
            query = f"SELECT {{body}} FROM {table} WHERE {{of}}{self.among('row', 'rows')}"
            for row, *body in self.fetch(query, rows=self.many(wanted)):
                found[row] = self.item_of(row, *body)
        return found


TOUCHED: Final = (
    "SELECT {{key}} FROM items WHERE {{of}}change_run = {run} UNION SELECT {{key}} FROM versions "
    "WHERE {{of}}change_run = {run} UNION SELECT {{key}} FROM versions WHERE {{of}}end_run = {run}"
)
"""Selects the keys of the items that a run changed, or is about to."""
_TOUCHED: Final = TOUCHED.format(run=":run")
_CHANGES: Final = (
    "SELECT change_run AS run, {{began}} AS at FROM items WHERE {{of}}change_run {which} "
    "UNION ALL SELECT change_run, recorded_from FROM versions "
    "WHERE {{of}}change_run {which} AND recorded_until IS NOT NULL "
    "UNION ALL SELECT end_run, recorded_until FROM versions WHERE {{of}}end_run {which}"
)
_SPAN: Final = f"SELECT min(at), max(at) FROM ({_CHANGES.format(which='= :run')}) AS changes"
_NEVER_PENDING: Final = (
    f"SELECT run, min(at), max(at) FROM ({_CHANGES.format(which='IS NOT NULL')}) AS changes "
    "WHERE run NOT IN (SELECT run FROM runs WHERE {of}true) GROUP BY run ORDER BY 2 DESC, run LIMIT :limit"
)
_CONFLICTS: Final = (
    "SELECT own.id FROM versions AS own LEFT JOIN (SELECT {key}, row FROM items WHERE {of}true) AS now "
    "ON now.{key} = own.{key} WHERE {of}own.change_run = :run AND own.recorded_until IS NULL "
    "AND now.row {differs} own.base "
    f"AND NOT (own.operation IN ({GONE_SQL}) AND now.row IS NULL) ORDER BY own.row"
)
_COLUMNS: Final = "run, state, actor, started_at, ended_at, committed_at"
_PENDING: Final = (
    "SELECT row, operation, base, change_actor FROM versions "
    "WHERE {of}change_run = :run AND recorded_until IS NULL ORDER BY row"
)
_INSERT: Final = (
    f"INSERT INTO runs({{into}}{_COLUMNS}) VALUES ({{store}}:run, :state, :actor, :started, :ended, :committed) "
    "ON CONFLICT DO NOTHING"
)
_END: Final = (
    "UPDATE runs SET state = :state, ended_at = :at, committed_at = COALESCE(:committed, committed_at) "
    "WHERE {of}run = :run"
)
_NO_CHANGE: Final = (
    "NOT EXISTS (SELECT 1 FROM items WHERE {of}change_run = runs.run) "
    "AND NOT EXISTS (SELECT 1 FROM versions WHERE {of}change_run = runs.run) "
    "AND NOT EXISTS (SELECT 1 FROM versions WHERE {of}end_run = runs.run)"
)


class Runs:
    """The runs of a collection within one transaction."""

    def __init__(self, tables: VersionTables) -> None:
        """Take the tables of the collection."""
        self.tables, self.location = tables, tables.location

    def _of(self, statement: str, run: str) -> list[tuple[Any, ...]]:
        return self.tables.fetch(statement, run=self.tables.text(run))

    def lock(self, run: str) -> None:
        """Let no other transaction write in a run, or end it, until this one ends."""
        self.tables.lock_runs([run])

    def end(self, run: str, state: RunState, at: int) -> None:
        """Record that a run is in a state since a recorded time."""
        committed = at if state is RunState.COMMITTED else None
        self.tables.fetch(_END, run=self.tables.text(run), state=state.value, at=at, committed=committed)

    def conflicts(self, run: str) -> list[str]:
        """Return the ids of the items that others changed since a pending run did; what both deleted is in none."""
        return [self.tables.read_text(found) or "" for (found,) in self._of(_CONFLICTS, run)]

    def pending(self, run: str) -> list[PendingVersion]:
        """Return the versions that a pending run wrote, oldest first."""
        return [
            PendingVersion(row=row, operation=Operation(operation), base=base, actor=self.tables.read_text(actor))
            for row, operation, base, actor in self._of(_PENDING, run)
        ]

    def remove_pending(self, run: str) -> None:
        """Remove the versions that a pending run wrote, and what only they use."""
        condition = f"change_run = {self.tables.dialect.mark} AND recorded_until IS NULL"
        self.tables.remove_versions(condition, [self.tables.text(run)])

    def span(self, run: str) -> tuple[int, int] | None:
        """Return the recorded times of a run's first and last committed change; None when no change of it is kept."""
        ((first, last),) = self._of(_SPAN, run)
        return None if first is None else (first, last)

    def touched(self, run: str) -> list[Any]:
        """Return the keys of the items that a run changed, or is about to."""
        return [key for (key,) in self._of(_TOUCHED, run)]

    def naming(self, table: Literal["items", "versions"], condition: str, values: Sequence[object]) -> set[str]:
        """Return the runs, as the tables name them, that began or ended the rows which match a condition."""
        columns = ("change_run",) if table == "items" else ("change_run", "end_run")
        where = f"FROM {table} WHERE {self.tables.dialect.of}({condition})"
        query = " UNION ".join(f"SELECT {column} {where}" for column in columns)
        return {run for (run,) in self.tables.execute(query, [*values] * len(columns)) if run is not None}

    def forget(self, runs: Iterable[str]) -> None:
        """Remove the rows of those runs of which no change is kept any more: name and actor tell who was there.

        A pending one begins again with what it writes next.
        """
        named = sorted(runs)
        if named:
            self.tables.lock_runs(self.tables.read_text(run) or "" for run in named)
            statement = f"DELETE FROM runs WHERE {{of}}{self.tables.among('run', 'runs')} AND {_NO_CHANGE}"
            self.tables.fetch(statement, runs=self.tables.many(named))

    def erase_versions(self, condition: str, values: Sequence[object]) -> None:
        """Delete the versions that match a condition permanently, and the runs of which no change is left."""
        named = self.naming("versions", condition, values)
        self.tables.remove_versions(condition, values)
        self.forget(named)

    def _row(self, run: str) -> RunRow | None:
        """Return the recorded row of a run."""
        found = self._of(f"SELECT {_COLUMNS} FROM runs WHERE {{of}}run = :run", run)
        return RunRow.read(found[0], self.tables.read_text) if found else None

    def _insert(self, row: RunRow) -> None:
        """Record a run, unless it is recorded already."""
        self.tables.fetch(
            _INSERT,
            run=self.tables.text(row.run),
            state=row.state.value,
            actor=self.tables.text(row.actor),
            started=row.started,
            ended=row.ended,
            committed=row.committed,
        )

    def _newest(self, limit: int) -> list[RunRow]:
        """Return the recorded runs that began last, newest first."""
        query = f"SELECT {_COLUMNS} FROM runs WHERE {{of}}true ORDER BY started_at DESC, run LIMIT :limit"
        return [RunRow.read(found, self.tables.read_text) for found in self.tables.fetch(query, limit=limit)]

    def _never_pending(self, limit: int) -> list[tuple[str, int, int]]:
        """Return id, first and last recorded time of the newest runs that only their changes tell of."""
        found = self.tables.fetch(_NEVER_PENDING, limit=limit)
        return [(self.tables.read_text(run) or "", first, last) for run, first, last in found]

    def _count_changes(self, run: str) -> int:
        """Return the number of items that a run changed, or is about to."""
        ((count,),) = self._of(f"SELECT count(*) FROM ({_TOUCHED}) AS touched", run)
        return int(count)

    def state_of(self, run: str) -> RunState | None:
        """Return the state of a run; None when it has not written anything as a run."""
        found = self._row(run)
        return None if found is None else found.state

    def check_open(self, run: str) -> None:
        """Refuse a run that has ended.

        Raises:
            RunStateError: it has.
        """
        state = self.state_of(run)
        if state not in (None, RunState.PENDING):
            raise RunStateError(self.location, run, state.value, "nothing can be written in it; use another id")

    def begin(self, run: str, actor: str | None, now: float) -> None:
        """Record a run as pending, unless it is already, and lock it; `now` is in seconds since the epoch.

        Raises:
            RunStateError: it has ended.
        """
        self.lock(run)
        self.check_open(run)
        self._insert(RunRow(run=run, state=RunState.PENDING, actor=actor, started=recorded(now)))

    def record(self, info: RunInfo) -> None:
        """Record a committed run that was never pending, unless it is recorded already."""
        started, ended = (recorded(each or 0.0) for each in (info.started_at, info.ended_at))
        self._insert(RunRow(run=info.run, state=info.state, started=started, ended=ended, committed=ended))

    def is_to_end(self, run: str, wanted: RunState) -> bool:
        """Whether a run is pending, and not in the wanted state already.

        Raises:
            RunStateError: it ended otherwise, or there is none.
        """
        state = self.read(run).state
        if state not in (RunState.PENDING, wanted):
            raise RunStateError(self.location, run, state.value, f"it cannot be {wanted.value} any more")
        return state is RunState.PENDING

    def require(self, info: RunInfo, *states: RunState) -> None:
        """Refuse a run that is in none of some states.

        Raises:
            RunStateError: it is in another one.
        """
        if info.state not in states:
            raise RunStateError(self.location, info.run, info.state.value, f"this needs one that is {states[0].value}")

    def newest(self, limit: int) -> list[RunInfo]:
        """Return the runs that began last, newest first, at most `limit`."""
        found = [*self._newest(limit), *(_seen_at_once(*each) for each in self._never_pending(limit))]
        newest = sorted(found, key=lambda row: (-row.started, row.run))[:limit]
        return [self._info(row) for row in newest]

    def find(self, run: str) -> RunInfo | None:
        """Return what is known of a run; None when it has written nothing."""
        row = self._row(run)
        if row is None and (times := self.span(run)) is not None:
            row = _seen_at_once(run, *times)
        return None if row is None else self._info(row)

    def read(self, run: str) -> RunInfo:
        """Return what is known of a run.

        Raises:
            RunStateError: it has written nothing.
        """
        found = self.find(run)
        if found is None:
            raise RunStateError(self.location, run, "unknown", "no run of this id has written anything here")
        return found

    def committed_at(self, run: str) -> int | None:
        """Return the recorded time from which on everybody sees what a run wrote; None when none of it is kept."""
        row = self._row(run)
        if row is not None:
            return row.committed
        times = self.span(run)
        return None if times is None else times[1]

    def _info(self, row: RunRow) -> RunInfo:
        return RunInfo(
            run=row.run,
            state=row.state,
            actor=row.actor,
            started_at=seconds(row.started),
            ended_at=None if row.ended is None else seconds(row.ended),
            changes=self._count_changes(row.run),
        )


def _seen_at_once(run: str, first: int, last: int) -> RunRow:
    """Return the row of a run whose changes were seen by all at once."""
    return RunRow(run=run, state=RunState.COMMITTED, started=first, ended=last, committed=last)
