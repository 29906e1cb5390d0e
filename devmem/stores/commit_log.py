"""Durable decisions: a row of pending work says what was decided before the first change, and goes after the last.

Whoever opens the stores after a crash finishes it: all of it is done, or, without the row, nothing. Runs that end in
several stores are decided so, and erasures in several places. The rows hold names, ids and numbers, never texts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import TypeAdapter

from devmem.errors import OutboxError
from devmem.redaction import location_without_credentials
from devmem.storage.pending import STATE_FILE, Outbox, pending_rows
from devmem.stores.config import PlaceConfig
from devmem.stores.memory import StoreSetup
from devmem.text.files import WorkMarker, is_at_work

_LOG: Final = logging.getLogger(__name__)
_ERASE: Final = "erase"
RunOperation: TypeAlias = Literal["commit", "revert"]
"""The end of a run in every store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """The decision that a run is committed, or reverted, in several stores."""

    run: str
    stores: tuple[str, ...]
    operation: RunOperation = "commit"


def open_commits(file: Path) -> Outbox[CommitRecord]:
    """Return the decisions on runs in a file of state, by run."""
    commits = TypeAdapter(CommitRecord)
    return Outbox(
        file, dump=lambda record: commits.dump_json(record).decode(), load=commits.validate_json, kind="commit"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseRecord:
    """The part of a decided erasure in one place: the items or parts that are erased from it."""

    kind: Literal["store", "pending", "recalls"]
    """A store, or the work that waits, or the log of what agents were shown, in a file of state."""
    place: str
    """Name of the store, or path of the file."""
    names: tuple[str, ...]
    """Ids of the store's items, numbers of rows, or names of the log's parts."""
    session: str = ""
    """Session through which the store is opened."""
    memory_path: str | None = None
    """Place of the store's items, as it is configured, without the user and the password of a URL."""
    user: str | None = None
    """User of all the items; None where they have several, or none."""
    tombstone: bool = False
    """Whether the store keeps tombstones of the items."""
    file: Path | None = None
    """File in which it is decided; None before it is."""
    key: str = ""
    """Key under which it is decided."""

    @classmethod
    def of_store(
        cls, setup: StoreSetup, ids: Sequence[str], *, user: str | None, tombstone: bool = False
    ) -> EraseRecord:
        """Return the record of a store."""
        session, path = _key(setup)
        return cls(
            kind="store", place=setup.name, names=tuple(ids), session=session, memory_path=path, user=user,
            tombstone=tombstone,
        )  # fmt: skip

    def belongs_to(self, setup: StoreSetup) -> bool:
        """Whether it is the record of a store."""
        return self.kind == "store" and (self.place, self.session, self.memory_path) == (setup.name, *_key(setup))

    def done(self) -> None:
        """Record that the place is done.

        Raises:
            OutboxError: that cannot be written; it is done once more.
        """
        if self.file is not None:
            with closing(_open_erasures(self.file)) as decided:
                decided.remove([self.key])


def _key(setup: StoreSetup) -> tuple[str, str | None]:
    path = setup.config.memory_path if isinstance(setup.config, PlaceConfig) else None
    session = setup.session_dir.name if setup.session_dir is not None else ""
    return session, None if path is None else location_without_credentials(path)


def erasures_file(base_dir: Path) -> Path:
    """Return the file of a workflow's decided erasures; `base_dir` is where the workflow's paths start."""
    return base_dir / ".devmem" / STATE_FILE


@cache
def _erasures() -> TypeAdapter[EraseRecord]:
    return TypeAdapter(EraseRecord)


def _open_erasures(file: Path) -> Outbox[EraseRecord]:
    def dump(record: EraseRecord) -> str:
        return _erasures().dump_json(record, exclude={"file", "key"}).decode()

    return Outbox(file, dump=dump, load=_erasures().validate_json, kind=_ERASE)


@contextmanager
def decide_erasure(file: Path, records: Sequence[EraseRecord]) -> Iterator[list[EraseRecord]]:
    """Decide durably that all of the records are carried out, and yield them as decided.

    Until the block ends, other processes leave them to this one.

    Raises:
        OutboxError, OSError: the decision cannot be written; nothing is decided.
    """
    if not records:
        yield []
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    marker = WorkMarker(file)
    try:
        decided = {f"{marker.name}.{number}": record for number, record in enumerate(records)}
        with closing(_open_erasures(file)) as erasures:
            erasures.put(decided)
        yield [replace(record, file=file, key=key) for key, record in decided.items()]
    finally:
        marker.remove()


def erase_records(file: Path, setup: StoreSetup | None = None) -> list[EraseRecord]:
    """Return the records that are decided, not done, and carried out by no living process; of one store, or of all."""
    try:
        rows = pending_rows(file, _ERASE)
    except OutboxError as error:
        _LOG.error("%s; run `devmem forget` again if an erasure was interrupted.", error)
        return []
    found: list[EraseRecord] = []
    for row in rows:
        try:
            found.append(replace(_erasures().validate_json(row.payload), file=file, key=row.key))
        except ValueError as error:
            _LOG.error("%s: the decision %s cannot be read (%s); run `devmem forget` again.", file, row.key, error)
    return [
        record
        for record in found
        if (setup is None or record.belongs_to(setup)) and not is_at_work(file, record.key.partition(".")[0])
    ]
