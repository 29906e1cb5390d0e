"""The recorder: it writes records to a file of pending work, from which a thread moves them into the store."""

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
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from devmem.encryption.keys import key_of, protect
from devmem.errors import OutboxError
from devmem.forks import follow_forks
from devmem.model.interactions import Interaction, ParticipantType
from devmem.recording import calls as context
from devmem.recording.content import Renderer, SecretMask
from devmem.recording.forwarder import Forwarder, Sink, records_in
from devmem.stores.memory import MemoryBase
from devmem.text.retry import Backoff

ALL_TYPES: Final = frozenset(set(ParticipantType) - {ParticipantType.USER, ParticipantType.UNKNOWN})
_LOG: Final = logging.getLogger(__name__)
_TICK: Final = 1e-6
"""Least difference of the event times of two records of one process, in seconds."""
_MOST_HELD: Final = 1000
"""Records that are held in memory while the file cannot be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingOptions:
    """Which calls are recorded, and the limits."""

    active: bool = True
    types: frozenset[ParticipantType] = ALL_TYPES
    """Calls of these kinds of callees are recorded."""
    language: str = "en"
    max_content_length: int = 20_000
    """Maximum number of characters of a record's content, and of its arguments."""
    max_pending_bytes: int = 256 << 20
    """Maximum number of bytes that wait for the store; beyond it new records are counted, and not kept."""
    secret_patterns: tuple[str, ...] = ()
    """Regular expressions; what they match is masked, beside what looks like a key or a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatus:
    """Counts of a recorder: what it took, what waits, what it did not take."""

    recorded: int
    """Records that were written to the file."""
    waiting_bytes: int
    """Size of the records in it that the store has not taken yet."""
    held: int = 0
    """Records in memory, because the file cannot be written at the moment."""
    rejected: int = 0
    """Records that were not kept: too much waited, or the file could not be written for too long."""
    refused: int = 0
    """Records that the store refused while it took others; the next recorder tries them again."""
    failure: str = ""
    """Why the store did not take the last batch; empty when it did."""


class InteractionRecorder:
    """Records interactions; safe to use from several threads.

    A record is acknowledged when it is in the file. A store that is slow or down delays no recorded call and fails
    none. A forked child sends nothing: its parent, or the next process, does.
    """

    def __init__(
        self,
        sink: Sink,
        file: str | Path,
        options: RecordingOptions | None = None,
        *,
        store: str = "",
        clock: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        """Prepare the recorder; what earlier processes left in the file is sent on first.

        Args:
            sink: where the records end.
            file: where they wait; processes with the same sink share it. `pending_file` returns the usual one.
            options: which calls are recorded; None takes the defaults.
            store: tells the records of one store from those of others in the same file.
            clock: time in seconds since the epoch.
            backoff: when to try again after the sink failed; None waits 1 to 30 seconds.

        Raises:
            ValueError: a pattern of the options is not a regular expression.
        """
        self.options = options or RecordingOptions()
        self.renderer = Renderer(self.options.max_content_length, SecretMask(self.options.secret_patterns))
        self._sink, self._file, self._store = sink, Path(file), store
        self._clock, self._last_time = clock, 0.0
        self._backoff = backoff or Backoff(first=1.0, longest=30.0)
        self._closed, self._forked = False, False
        self._last: RecordingStatus | None = None
        own = (key_of(each) for each in sink.files()) if isinstance(sink, MemoryBase) else ()
        if (key := next(filter(None, own), None)) is not None and key_of(self._file) is None:
            protect(self._file, key)
        self._begin()
        _LIVING.add(self)
        follow_forks(self)
        try:
            if self._records.held():
                # What the store refused then it may take now.
                self._records.readmit()
                self._forwarder.start()
        except OutboxError as error:
            _LOG.error("what earlier processes recorded cannot be read: %s", error)

    def _begin(self) -> None:
        self._lock, self._stamping = threading.Lock(), threading.Lock()
        self._records = records_in(self._file, self._store)
        # Apart, so that reading a batch delays no recorded call.
        self._forwarder = Forwarder(self._sink, records_in(self._file, self._store), self._backoff, self._retry_held)
        self._held: deque[Interaction] = deque()
        self._sequence = itertools.count(1)
        self._recorded = self._rejected = self._room = 0

    def trace(
        self, *, conversation: str | None = None, trace: str | None = None, user: str | None = None
    ) -> AbstractContextManager[context.TraceContext]:
        """Begin a trace that this recorder records; see `devmem.trace`."""
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
        """Write a record; it never raises and never waits for the store.

        Returns:
            Whether it is in the file. False is logged once: the record is held in memory while the file cannot be
            written, or it is counted in `status().rejected`.
        """
        if self._closed:
            self._reject("the recorder is closed")
            return False
        try:
            kept = self._write_held() and self._write(interaction)
        except (TypeError, ValueError) as error:
            self._reject(f"it has no JSON form: {error}")
            return False
        except OutboxError as error:
            self._hold(interaction, error)
            return False
        if not kept:
            self._reject(f"{self.options.max_pending_bytes} bytes wait already")
            return False
        if not self._forked:
            self._forwarder.notify()
        return True

    def _write(self, interaction: Interaction) -> bool:
        """Write a record; return whether there was room for it."""
        payload = interaction.dump()
        if len(payload) > self._room:
            self._room = self.options.max_pending_bytes - self._records.waiting_bytes()
        if len(payload) > self._room:
            return False
        self._records.put_payload(interaction.id, payload)
        self._room -= len(payload)
        self._recorded += 1
        return True

    def status(self) -> RecordingStatus:
        """Report what was recorded and what waits."""
        if self._last is not None:
            return replace(self._last, rejected=self._rejected)
        failure = self._forwarder.failure
        try:
            waiting, refused = self._records.waiting_bytes(), self._records.refused()
        except OutboxError as error:
            waiting, refused, failure = 0, 0, str(error)
        return RecordingStatus(
            recorded=self._recorded,
            waiting_bytes=waiting,
            held=len(self._held),
            rejected=self._rejected,
            refused=refused,
            failure=failure,
        )

    def flush(self, timeout: float = 30.0) -> bool:
        """Wait until the store has every record; return whether it has, after at most `timeout` seconds.

        A forked child does not send its records itself: there it returns whether it made none.
        """
        self._retry_held()
        if self._forked:
            return not self._recorded and not self._held
        return self._forwarder.flush(timeout) and not self._held

    def close(self, timeout: float = 30.0) -> bool:
        """Flush and stop; return whether the store took everything.

        The rest waits in the file for the next start.
        """
        if self._closed:
            return True
        drained = self.flush(timeout)
        self._closed = True
        # A thread that is still in the store may be about to remove what it has taken.
        if self._forwarder.stop(timeout):
            self._forwarder.close()
        self._last = self.status()
        self._records.close()
        if self._held:
            _LOG.error("%d interactions could not be written to %s and are lost", len(self._held), self._file)
        return drained

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def restart_in_child(self) -> None:
        """Begin again in a forked child: a thread that is not here may hold the locks."""
        self._forked = True
        self._begin()

    def _hold(self, interaction: Interaction, error: OutboxError) -> None:
        with self._lock:
            full = len(self._held) >= _MOST_HELD
            if not full:
                self._held.append(interaction)
                if len(self._held) == 1:
                    _LOG.error("interactions are held in memory: %s", error)
        if full:
            self._reject(str(error))

    def _retry_held(self) -> None:
        """Write the held records, if that is possible again."""
        try:
            self._write_held()
        except OutboxError as error:
            _LOG.debug("interactions are still held in memory: %s", error)

    def _write_held(self) -> bool:
        """Write what could not be written before, in its order; return whether nothing is held any more."""
        while self._held:
            with self._lock:
                if not self._held:
                    break
                if not self._write(self._held[0]):
                    return False
                self._held.popleft()
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
