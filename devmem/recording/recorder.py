"""The recorder: it appends records to a journal, from which one background thread moves them into the store."""

from __future__ import annotations

import atexit
import itertools
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from devmem.encryption import key_of
from devmem.errors import EncryptionError, JournalError
from devmem.forks import follow_forks
from devmem.model.interactions import Interaction, ParticipantType
from devmem.recording import calls as context
from devmem.recording.content import Renderer, SecretMask
from devmem.recording.forwarder import Forwarder, Sink
from devmem.recording.journal import Journal, encode_line, has_journals
from devmem.stores.memory import MemoryBase
from devmem.text.retry import Backoff

ALL_TYPES: Final = frozenset(set(ParticipantType) - {ParticipantType.USER, ParticipantType.UNKNOWN})
_LOG: Final = logging.getLogger(__name__)
_TICK: Final = 1e-6
"""Least difference of the event times of two records of one process, in seconds."""
_MOST_HELD: Final = 1000
"""Records that are held in memory while the journal cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """Which calls are recorded, and the limits."""

    active: bool = True
    types: frozenset[ParticipantType] = ALL_TYPES
    """Calls of these kinds of callees are recorded."""
    language: str = "en"
    max_content_length: int = 20_000
    """Maximum number of characters of a record's content, and of its arguments."""
    max_journal_bytes: int = 256 << 20
    """Maximum number of bytes that wait for the store; beyond it new records are counted, and not kept."""
    secret_patterns: tuple[str, ...] = ()
    """Regular expressions; what they match is masked, beside what looks like a key or a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatus:
    """Counts of a recorder: what it took, what waits, what it did not take."""

    recorded: int
    """Records that were appended to the journal."""
    waiting_bytes: int
    """Bytes of the journal that the store has not taken yet."""
    held: int = 0
    """Records in memory, because the journal cannot be written at the moment."""
    rejected: int = 0
    """Records that were not kept: the journal was full, or could not be written for too long."""
    refused: int = 0
    """Records that the store refused while it took others; they are in a file beside the journal."""
    failure: str = ""
    """Why the store did not take the last batch; empty when it did."""


def _refuse_encrypted(sink: Sink, folder: Path) -> None:
    """Refuse to write plain journals of an encrypted store."""
    files = [folder, *(sink.files() if isinstance(sink, MemoryBase) else ())]
    if any(key_of(file) is not None for file in files):
        raise EncryptionError(
            folder, "journals of recorded calls are not encrypted: record into a store that is not encrypted either."
        )


class InteractionRecorder:
    """Records interactions; safe to use from several threads.

    A record is acknowledged when it is in the journal. A store that is slow or down delays no recorded call and fails
    none. A forked child has its own journal, which its parent, or the next process, sends on.
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
            folder: where the journals are; processes with the same sink share it. `journal_folder` returns the usual
                one.
            options: which calls are recorded; None takes the defaults.
            clock: time in seconds since the epoch.
            backoff: when to try again after the sink failed; None waits 1 to 30 seconds.

        Raises:
            EncryptionError: the store or the folder is encrypted, and the journals would be plain.
            ValueError: a pattern of the options is not a regular expression.
        """
        _refuse_encrypted(sink, Path(folder))
        self.options = options or RecordingOptions()
        self.renderer = Renderer(self.options.max_content_length, SecretMask(self.options.secret_patterns))
        self._sink, self._folder, self._clock, self._last_time = sink, Path(folder), clock, 0.0
        self._backoff = backoff or Backoff(first=1.0, longest=30.0)
        self._closed, self._forked = False, False
        self._begin()
        _LIVING.add(self)
        follow_forks(self)
        if has_journals(self._folder):
            self._forwarder.start()

    def _begin(self) -> None:
        """Start without a journal, which the first record creates."""
        self._lock, self._stamping = threading.Lock(), threading.Lock()
        self._forwarder = Forwarder(self._sink, self._folder, self._backoff, self._retry_held)
        self._journal: Journal | None = None
        self._held: deque[bytes] = deque()
        self._sequence = itertools.count(1)
        self._rejected = 0

    def trace(
        self, *, conversation: str | None = None, trace: str | None = None, user: str | None = None
    ) -> AbstractContextManager[context.TraceContext]:
        """Begin a trace that this recorder records; see `devmem.recording.trace`."""
        return context.trace(self, conversation=conversation, trace=trace, user=user)

    def records(self, callee: ParticipantType, types: Collection[ParticipantType] | None = None) -> bool:
        """Whether calls of this kind of callee are recorded, by the kinds `types`; None takes those of the options."""
        return self.options.active and not self._closed and callee in (self.options.types if types is None else types)

    def stamp(self, not_before: float = 0.0) -> tuple[float, int]:
        """Return the time and the position of the next record: later than every one before it, whatever the clock does.

        Args:
            not_before: event time of a record that precedes, in seconds since the epoch.
        """
        with self._stamping:
            self._last_time = max(self._clock(), self._last_time + _TICK, not_before + _TICK)
            return self._last_time, next(self._sequence)

    def append(self, interaction: Interaction) -> bool:
        """Append a record to the journal; it never raises and never waits for the store.

        Returns:
            Whether it is in the journal. False is logged once: the record is held in memory while the journal cannot be
            written, or it is counted in `status().rejected`.
        """
        try:
            line = encode_line(interaction.to_row())
        except (TypeError, ValueError) as error:
            self._reject(f"it has no JSON form: {error}")
            return False
        try:
            journal = self._journal or self._open_journal()
            kept = (not self._held or self._write_held(journal)) and journal.append(line)
        except JournalError as error:
            if self._closed:
                self._reject("the recorder is closed")
            else:
                self._hold(line, error)
            return False
        if not kept:
            self._reject(f"{self.options.max_journal_bytes} bytes wait already")
            return False
        self._forwarder.notify()
        return True

    def status(self) -> RecordingStatus:
        """Report what was recorded and what waits."""
        journal = self._journal
        return RecordingStatus(
            recorded=journal.appended if journal else 0,
            waiting_bytes=journal.waiting_bytes if journal else 0,
            held=len(self._held),
            rejected=self._rejected,
            refused=self._forwarder.refused,
            failure=self._forwarder.failure,
        )

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until the store has every record; return whether it has, after at most `timeout` seconds.

        A forked child does not send its records itself: there it returns whether there are none.
        """
        self._retry_held()
        if self._forked:
            return self._journal is None and not self._held
        return self._forwarder.flush(timeout) and not self._held

    def close(self, timeout: float = 30.0) -> bool:
        """Flush and stop; return whether the store took everything.

        The rest stays in the journal for the next start.
        """
        if self._closed:
            return True
        drained = self.flush(timeout)
        self._closed = True
        # A thread that is still in the store may be about to acknowledge: the journal is left alone then.
        if self._forwarder.stop(timeout) and self._journal is not None:
            self._journal.close()
        if self._held:
            _LOG.error("%d interactions could not be written to %s and are lost", len(self._held), self._folder)
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_journal(self) -> Journal:
        with self._lock:
            if self._closed:
                raise JournalError(self._folder, "no journal can be created: the recorder is closed")
            if self._journal is None:
                self._journal = Journal(self._folder, max_bytes=self.options.max_journal_bytes)
                if not self._forked:
                    self._forwarder.journal = self._journal
                    self._forwarder.start()
            return self._journal

    def restart_in_child(self) -> None:
        """Begin again in a forked child.

        The journal and the store's connections are the parent's, and a thread that is not here may hold the locks.
        """
        if self._journal is not None:
            self._journal.close_in_child()
        self._forked = True
        self._begin()

    def _hold(self, line: bytes, error: JournalError) -> None:
        with self._lock:
            full = len(self._held) >= _MOST_HELD
            if not full:
                self._held.append(line)
                if len(self._held) == 1:
                    _LOG.error("interactions are held in memory: %s", error)
        if full:
            self._reject(str(error))

    def _retry_held(self) -> None:
        """Append the held records, if that is possible again."""
        if not self._held:
            return
        try:
            self._write_held(self._journal or self._open_journal())
        except JournalError as error:
            _LOG.debug("interactions are still held in memory: %s", error)

    def _write_held(self, journal: Journal) -> bool:
        """Append what could not be appended before, in its order; return whether nothing is held any more."""
        with self._lock:
            while self._held:
                if not journal.append(self._held[0]):
                    return False
                self._held.popleft()
        self._forwarder.notify()
        return True

    def _reject(self, reason: str) -> None:
        with self._lock:
            self._rejected += 1
            first = self._rejected == 1
        if first:
            _LOG.error("an interaction is not recorded: %s; further ones are counted", reason)


_LIVING: Final[weakref.WeakSet[InteractionRecorder]] = weakref.WeakSet()


def _close_all() -> None:
    """Flush the recorders at the end of the process, for a moment; the next one sends the rest."""
    for recorder in list(_LIVING):
        recorder.close(timeout=2.0)


atexit.register(_close_all)
