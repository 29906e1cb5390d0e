"""The thread that moves records from journals into the store, in their order, and again where the store failed."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from filelock import FileLock

from devmem.errors import Finding
from devmem.model.interactions import Interaction
from devmem.model.results import FileReport, damage, unfinished
from devmem.recording.journal import (
    AbandonedJournal,
    Batch,
    Journal,
    Record,
    abandoned_journals,
    decode_line,
    journal_paths,
    read_position,
)
from devmem.text.files import OWNER_ONLY, create_private, lock_file
from devmem.text.retry import Backoff

REFUSED: Final = "refused.jsonl"
"""File of the records that a store refused, in the folder of the journals; `devmem import` reads it."""
_LONGEST_WAIT: Final = 30.0
"""Seconds that a process waits while another one changes the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalState:
    """A journal as it lies in its folder."""

    path: Path
    waiting_bytes: int
    """Number of bytes that the store has not acknowledged."""
    in_use: bool
    """Whether a living process writes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRecords:
    """The journals of a store, and what it refused."""

    folder: Path
    journals: tuple[JournalState, ...]
    """The oldest first."""
    refused: int
    """Number of records that the store refused while it took others."""

    @property
    def waiting_bytes(self) -> int:
        """Number of bytes that the store has not acknowledged."""
        return sum(journal.waiting_bytes for journal in self.journals)

    @property
    def abandoned(self) -> int:
        """Number of journals with waiting records whose processes are gone; the next recorder sends them."""
        return sum(1 for journal in self.journals if journal.waiting_bytes and not journal.in_use)


def journal_folder(location: str | Path) -> Path:
    """Return the usual folder of the journals of a store whose items are in a file: beside it."""
    return Path(f"{location}.journals")


def lock_refused_records(folder: Path) -> FileLock:
    """Return the lock of the file of refused records, which whoever appends to it or rewrites it holds.

    Acquiring it raises `filelock.Timeout`, an `OSError`, where another process does not release it.
    """
    return FileLock(folder / f"{REFUSED}.lock", timeout=_LONGEST_WAIT, mode=OWNER_ONLY)


def waiting_records(folder: Path) -> WaitingRecords:
    """Report what waits in a folder of journals; nothing where there is no such folder.

    Raises:
        OSError: the folder or a journal cannot be read.
    """
    states = (_state_of(path) for path in journal_paths(folder))
    return WaitingRecords(
        folder=folder,
        journals=tuple(state for state in states if state is not None),
        refused=_count_lines(folder / REFUSED),
    )


def examine_journals(folder: Path) -> FileReport:
    """Examine the journals in a folder; nothing is sent or deleted."""
    try:
        found = waiting_records(folder)
        pending, findings = 0, list[Finding]()
        for journal in found.journals:
            records, damaged = _lines(journal)
            pending += records
            if damaged:
                findings.append(damage(f"{damaged:,} damaged lines in {journal.path.name}"))
    except OSError as error:
        problem = damage(f"it cannot be read: {error.strerror or error}")
        return FileReport(path=str(folder), kind="journals", findings=[problem])
    if found.refused:
        findings.append(damage(f"{found.refused:,} records were refused by the store; {REFUSED} has them"))
    if pending:
        findings.append(unfinished(f"{pending:,} records wait for the store; the next recorder sends them"))
    facts = {"journals": len(found.journals), "waiting": pending, "refused": found.refused}
    return FileReport(path=str(folder), kind="journals", facts=facts, findings=findings)


def _lines(journal: JournalState) -> tuple[int, int]:
    """Return the numbers of records that wait and of damaged lines among them."""
    with journal.path.open("rb") as file:
        file.seek(read_position(journal.path))
        # A last line without a line feed was never acknowledged.
        whole = [line for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]
    damaged = sum(1 for line in whole if decode_line(line[:-1]) is None)
    return len(whole) - damaged, damaged


def _state_of(path: Path) -> JournalState | None:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            in_use = not lock_file(file)
    except FileNotFoundError:
        return None
    return JournalState(path=path, waiting_bytes=max(size - read_position(path), 0), in_use=in_use)


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(1 for _ in file)
    except FileNotFoundError:
        return 0


_LOG: Final = logging.getLogger(__name__)
_BATCH_SIZE: Final = 500
_LINGER: Final = 0.05
"""Seconds that records are collected for before they are sent, so that a store commits many of them at once."""
_LOOK_AROUND: Final = 5.0
"""Seconds after which journals that were left behind are looked for again."""
_SHARE: Final = 8
"""Records that are read before other threads get the interpreter, for which they would wait a whole time slice."""
_FAILURES_BEFORE_SINGLY: Final = 2
"""Failures of a batch after which its records are sent one by one."""


class Sink(Protocol):
    """Where recorded interactions end: a `conversation` store, or a test's list."""

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store interactions, durably and each once by its id.

        Raises:
            DevmemError: nothing was stored; it is tried again later.
        """
        ...


class Forwarder:
    """Sends the records in the journal of this process and in abandoned ones."""

    def __init__(self, sink: Sink, folder: Path, backoff: Backoff, before_each: Callable[[], None]) -> None:
        """Prepare the thread, which `start` starts.

        Args:
            sink: where the records end.
            folder: where the journals are.
            backoff: when to try again after the sink failed.
            before_each: is called before each look at the journal.
        """
        self._sink, self._folder, self._backoff, self._before_each = sink, folder, backoff, before_each
        self._thread: threading.Thread | None = None
        self._starting, self._idle = threading.Lock(), threading.Condition()
        self._work, self._hurry, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._looked = False
        self._failures = 0
        self.journal: Journal | None = None
        """The journal of this process."""
        self.failure = ""
        """Why the store did not take the last batch; empty when it did."""
        self.refused = 0
        """Number of records that the store refused while it took others."""

    def start(self) -> None:
        """Start sending; journals that were left behind come first."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="devmem-recorder", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    # No recorded call fails for it: the records are in the journal, and the next one tries again.
                    _LOG.warning("recorded interactions wait in %s: %s", self._folder, error)
                    return
                self._thread = thread

    def notify(self) -> None:
        """Report that the journal has new records."""
        if self._thread is None:
            self.start()
        if not self._work.is_set():
            self._work.set()

    def flush(self, timeout: float) -> bool:
        """Wait until the store has every record; return whether it has, after at most `timeout` seconds."""
        self.start()
        self._hurry.set()
        self._work.set()
        with self._idle:
            return self._idle.wait_for(self._is_drained, timeout)

    def stop(self, timeout: float) -> bool:
        """Stop the thread; return whether it has ended, after at most `timeout` seconds."""
        for event in (self._stopping, self._hurry, self._work):
            event.set()
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _is_drained(self) -> bool:
        return self._looked and not self.failure and (self.journal is None or self.journal.waiting_bytes == 0)

    def _run(self) -> None:
        self._send_abandoned()
        self._looked = True
        while not self._stopping.is_set():
            if not self._work.wait(min(self._backoff.left, _LOOK_AROUND) if self.failure else _LOOK_AROUND):
                self._send_abandoned()
            self._hurry.wait(_LINGER)
            self._work.clear()
            self._before_each()
            if self._send_own():
                self._hurry.clear()
                with self._idle:
                    self._idle.notify_all()

    def _send_own(self) -> bool:
        """Move what waits in the journal of this process into the store; return whether it took everything."""
        try:
            return self.journal is None or self._send_all(self.journal)
        except OSError as error:
            self._failed(error)
            return False

    def _send_abandoned(self) -> None:
        try:
            for journal in abandoned_journals(self._folder):
                self._send_all(journal)
        except OSError as error:
            _LOG.warning("%s: journals of earlier processes cannot be read: %s", self._folder, error)

    def _send_all(self, journal: Journal | AbandonedJournal) -> bool:
        """Move all that waits into the store; return whether it took everything."""
        while not self._stopping.is_set() and (batch := journal.next_batch(_BATCH_SIZE)) is not None:
            if not self._backoff.admits() or not self._send(batch):
                return False
            journal.acknowledge(batch.end)
            if len(batch.records) < _BATCH_SIZE and not self._hurry.is_set():
                # Records that were appended meanwhile are collected first.
                break
        return journal.waiting_bytes == 0

    def _send(self, batch: Batch) -> bool:
        """Send a batch; return whether the store has it, but for what it refused."""
        records = list(self._readable(batch.records))
        singly = self._failures >= _FAILURES_BEFORE_SINGLY and len(records) > 1
        error = self._send_singly(records) if singly else self._failure_of(records)
        if error is not None:
            self._failures += 1
            self._failed(error)
            return False
        self.failure, self._failures = "", 0
        self._backoff.worked()
        return True

    def _failed(self, error: Exception) -> None:
        if not self.failure:
            _LOG.warning("recorded interactions wait in %s: %s", self._folder, error)
        self.failure = f"{type(error).__name__}: {error}"
        self._backoff.failed()

    def _readable(self, records: Sequence[Record]) -> Iterator[Interaction]:
        for at, record in enumerate(records, start=1):
            try:
                yield Interaction.from_row(record)
            except ValueError as error:
                _LOG.error("%s: the record %.200r cannot be read and was left out: %s", self._folder, record, error)
            if at % _SHARE == 0:
                time.sleep(0)

    def _send_singly(self, records: Sequence[Interaction]) -> Exception | None:
        """Send records one by one, so that one which the store refuses does not hold up the others.

        Returns:
            the failure, where the store took none; what it refused while it took others is put into a file.
        """
        failed = [(record, error) for record in records if (error := self._failure_of([record])) is not None]
        if len(failed) == len(records):
            return failed[0][1]
        try:
            for record, error in failed:
                self._refuse(record, error)
        except OSError as error:
            return error
        return None

    def _refuse(self, record: Interaction, error: Exception) -> None:
        path = self._folder / REFUSED
        line = json.dumps({**record.to_json(), "refused": f"{type(error).__name__}: {error}"})
        with lock_refused_records(self._folder), open(path, "a", encoding="ascii", opener=create_private) as file:
            file.write(f"{line}\n")
        self.refused += 1
        _LOG.error("the store refuses the record %s, which is in %s now: %s", record.id, path, error)

    def _failure_of(self, records: Sequence[Interaction]) -> Exception | None:
        try:
            if records:
                self._sink.record(records)
        except Exception as error:  # noqa: BLE001 - a sink may be a stranger's; what it did not take is sent again
            return error
        return None
