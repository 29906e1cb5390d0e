"""The recorder: it appends records to a journal, and one background thread moves them into the store."""

from __future__ import annotations

import atexit
import itertools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from devmem.errors import JournalError
from devmem.model.interactions import Interaction, ParticipantType
from devmem.recording import context
from devmem.recording.journal import AbandonedJournal, Batch, Journal, Record, abandoned_journals
from devmem.text.backoff import Backoff

ALL_TYPES: Final = frozenset(set(ParticipantType) - {ParticipantType.USER, ParticipantType.UNKNOWN})
_LOG: Final = logging.getLogger(__name__)
_BATCH: Final = 500
_TICK: Final = 1e-6
"""Least difference of the event times of two records of one process, in seconds."""
_IDLE: Final = 0.5
"""Seconds after which the writer looks for work without being told."""
_MOST_HELD: Final = 1000
"""Records that are held in memory while the journal cannot be written."""


class Sink(Protocol):
    """Where recorded interactions end: a `conversation` store, or a test's list."""

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store interactions, durably and each once by its id.

        Raises:
            DevmemError: nothing was stored; it is tried again later.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """The choice of what is recorded, and its limits."""

    active: bool = True
    types: frozenset[ParticipantType] = ALL_TYPES
    """Calls of these kinds of callees are recorded."""
    language: str = "en"
    max_content_length: int = 20_000
    """Maximum number of characters of a record's content, and of its arguments."""
    max_journal_bytes: int = 256 << 20
    """Maximum number of bytes that wait for the store; beyond it new records are counted, and not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatus:
    """Counts of a recorder: what it took, what waits, what it did not take."""

    recorded: int
    waiting_bytes: int
    rejected: int
    """Records that found the journal full, or that it could not take."""
    failure: str = ""
    """Why the store did not take the last batch; empty when it did."""


@dataclass(slots=True)
class _Counts:
    recorded: int = 0
    rejected: int = 0
    failure: str = ""
    held: deque[Record] = field(default_factory=lambda: deque(maxlen=_MOST_HELD))


class Recorder:
    """Records interactions; safe to use from several threads.

    A record is acknowledged when it is in the journal. A store that is slow or down delays no recorded call and fails
    none.
    """

    def __init__(
        self,
        sink: Sink,
        folder: str | Path,
        options: RecordingOptions | None = None,
        *,
        clock: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        """Prepare the recorder; what earlier processes left in the folder is sent on first.

        Args:
            sink: where the records end.
            folder: where the journals are; processes with the same sink share it.
            options: what is recorded; None takes the defaults.
            clock: time in seconds since the epoch.
            backoff: when to try again after the sink failed; None waits 1 to 30 seconds.
        """
        self.options = options or RecordingOptions()
        self._sink, self._folder, self._clock = sink, Path(folder), clock
        self._backoff = backoff or Backoff(first=1.0, longest=30.0)
        self._state = threading.Lock()
        self._counts = _Counts()
        self._sequence = itertools.count(1)
        self._last_time = 0.0
        self._journal: Journal | None = None
        self._pid = os.getpid()
        self._closed = False
        self._work, self._idle = threading.Event(), threading.Condition()
        self._thread: threading.Thread | None = None
        _close_at_exit(self)

    def trace(
        self, *, conversation: str | None = None, trace: str | None = None, user: str | None = None
    ) -> AbstractContextManager[context.TraceContext]:
        """Begin a trace that this recorder records; see `devmem.recording.trace`."""
        return context.trace(self, conversation=conversation, trace=trace, user=user)

    def records(self, callee: ParticipantType) -> bool:
        """Whether calls of this kind of callee are recorded."""
        return self.options.active and not self._closed and callee in self.options.types

    def event_time(self, not_before: float = 0.0) -> float:
        """Return the time of the next record: later than every one before it, whatever the clock does."""
        with self._state:
            self._last_time = max(self._clock(), self._last_time + _TICK, not_before + _TICK)
            return self._last_time

    def next_sequence(self) -> int:
        """Return the position of the next record in this process."""
        return next(self._sequence)

    def append(self, interaction: Interaction) -> bool:
        """Append a record to the journal; it never raises and never waits for the store.

        Returns:
            Whether it is in the journal; False is counted in `status().rejected`, and logged once.
        """
        record = interaction.to_row()
        try:
            journal = self._open_journal()
            kept = self._append_held(journal) and journal.append(record)
            reason = f"{self.options.max_journal_bytes} bytes wait already"
        except JournalError as error:
            self._counts.held.append(record)
            kept, reason = False, str(error)
        if kept:
            self._counts.recorded += 1
            self._work.set()
        else:
            self._reject(reason)
        return kept

    def status(self) -> RecordingStatus:
        """Report what was recorded and what waits."""
        journal, counts = self._journal, self._counts
        return RecordingStatus(
            recorded=counts.recorded,
            waiting_bytes=journal.waiting_bytes if journal else 0,
            rejected=counts.rejected,
            failure=counts.failure,
        )

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until the store has every record; return whether it has, after at most `timeout` seconds."""
        self._start_writer()
        self._work.set()
        with self._idle:
            return self._idle.wait_for(self._is_drained, timeout)

    def close(self, timeout: float = 30.0) -> bool:
        """Flush and stop; return whether the store took everything.

        What it did not take stays in the journal for the next start.
        """
        if self._closed:
            return True
        drained = self.flush(timeout) if self._journal is not None else True
        self._closed = True
        self._work.set()
        if self._thread is not None:
            self._thread.join(timeout)
        if self._journal is not None and self._pid == os.getpid():
            self._journal.close()
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_journal(self) -> Journal:
        """Return the journal of this process; a forked child opens one of its own."""
        if self._journal is not None and self._pid == os.getpid():
            return self._journal
        with self._state:
            if self._journal is None or self._pid != os.getpid():
                self._pid, self._thread = os.getpid(), None
                self._journal = Journal(self._folder, max_bytes=self.options.max_journal_bytes)
            journal = self._journal
        self._start_writer()
        return journal

    def _append_held(self, journal: Journal) -> bool:
        """Append what could not be appended before, in its order; return whether nothing is held any more."""
        while self._counts.held:
            if not journal.append(self._counts.held[0]):
                return False
            self._counts.held.popleft()
            self._counts.rejected -= 1
            self._counts.recorded += 1
        return True

    def _reject(self, reason: str) -> None:
        if self._counts.rejected == 0:
            _LOG.error("an interaction is not recorded: %s; further ones are counted", reason)
        self._counts.rejected += 1

    def _is_drained(self) -> bool:
        return self._journal is None or (self._journal.waiting_bytes == 0 and not self._counts.failure)

    def _start_writer(self) -> None:
        with self._state:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._write, name="devmem-recorder", daemon=True)
                self._thread.start()

    def _write(self) -> None:
        self._recover()
        while not self._closed:
            self._work.wait(_IDLE)
            self._work.clear()
            if self._journal is not None and self._send_all(self._journal):
                with self._idle:
                    self._idle.notify_all()

    def _recover(self) -> None:
        try:
            for journal in abandoned_journals(self._folder):
                self._send_all(journal)
        except OSError as error:
            _LOG.warning("%s: journals of earlier processes cannot be read: %s", self._folder, error)

    def _send_all(self, journal: Journal | AbandonedJournal) -> bool:
        """Move all that waits into the store; return whether it took everything."""
        while (batch := journal.next_batch(_BATCH)) is not None:
            if not self._backoff.admits() or not self._send(batch):
                return False
            journal.acknowledge(batch.end)
        return True

    def _send(self, batch: Batch) -> bool:
        try:
            self._sink.record(list(_read(batch.records)))
        except Exception as error:  # noqa: BLE001 - a sink may be a stranger's; what it did not take is sent again
            if not self._counts.failure:
                _LOG.warning("recorded interactions wait in %s: %s", self._folder, error)
            self._counts.failure = f"{type(error).__name__}: {error}"
            self._backoff.failed()
            return False
        self._counts.failure = ""
        self._backoff.worked()
        return True


def _read(records: Iterable[Record]) -> Iterator[Interaction]:
    for raw in records:
        yield Interaction.from_row(raw)
        # Release the interpreter's lock, or a call that is being recorded waits for it for a whole time slice.
        time.sleep(0)


def _close_at_exit(recorder: Recorder) -> None:
    """Flush a recorder at the end of the process, for a moment: what is left is sent by the next one."""
    reference = weakref.ref(recorder)

    def close() -> None:
        if (living := reference()) is not None:
            living.close(timeout=2.0)

    atexit.register(close)
