"""The thread that moves recorded interactions into the store, in their order, and again where the store failed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from devmem.errors import OutboxError
from devmem.model.interactions import Interaction
from devmem.storage.pending import RECORD, DeliveryPolicy, Entry, Outbox, deliver
from devmem.text.retry import Backoff

_LOG: Final = logging.getLogger(__name__)
_BATCH_SIZE: Final = 500
_LIMIT: Final = 2**53
"""Records are limited by their size, not by their number."""
_LINGER: Final = 0.05
"""Seconds that records are collected for before they are sent, so that a store commits many of them at once."""
_LOOK_AROUND: Final = 5.0
"""Seconds after which records of processes that have ended are looked for."""
_PATIENCE: Final = 0.2
"""Seconds to wait for another process that sends."""
_POLICY: Final = DeliveryPolicy(batch=_BATCH_SIZE)


class Sink(Protocol):
    """Where recorded interactions end: a `conversation` store, or a test's list."""

    def record(self, interactions: Sequence[Interaction]) -> None:
        """Store interactions, durably and each once by its id.

        Raises:
            DevmemError: nothing was stored; it is tried again later.
        """
        ...


def pending_file(location: str | Path) -> Path:
    """Return the usual file of the records that wait for a store whose items are in a file: beside it."""
    return Path(f"{location}.pending")


def records_in(file: Path, store: str = "") -> Outbox[Interaction]:
    """Return the records that wait in a file for a store; a record survives the death of the process once it is put."""
    return Outbox(
        file, dump=Interaction.dump, load=Interaction.load, kind=RECORD, place=store, limit=_LIMIT, durability="normal"
    )


def send_records(sink: Sink, records: Outbox[Interaction], patience: float) -> Exception | None:
    """Move the records that wait into a store; return why some still do."""

    def send(entries: Sequence[Entry[Interaction]]) -> list[None]:
        sink.record([entry.value for entry in entries])
        return [None] * len(entries)

    return deliver(records, send, _POLICY, patience=patience).stopped_by


class Forwarder:
    """Sends the records of this process, and those that others left behind."""

    def __init__(
        self, sink: Sink, records: Outbox[Interaction], backoff: Backoff, before_each: Callable[[], None]
    ) -> None:
        """Prepare the thread, which `start` starts.

        Args:
            sink: where the records end.
            records: the records that wait.
            backoff: when to try again after the sink failed.
            before_each: is called before each delivery.
        """
        self._sink, self._records, self._backoff, self._before_each = sink, records, backoff, before_each
        self._thread: threading.Thread | None = None
        self._starting, self._idle = threading.Lock(), threading.Condition()
        self._work, self._hurry, self._stopping = threading.Event(), threading.Event(), threading.Event()
        self._sent = 0
        """Number of records of the last batch."""
        self.failure = ""
        """Why the store did not take the last batch; empty when it did."""

    def start(self) -> None:
        """Start sending; what was left behind comes first."""
        with self._starting:
            if self._thread is None:
                self._work.set()
                thread = threading.Thread(target=self._run, name="devmem-recorder", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    # No recorded call fails for it: the records are on disk, and the next one tries again.
                    _LOG.warning("recorded interactions wait in %s: %s", self._records.location, error)
                    return
                self._thread = thread

    def notify(self) -> None:
        """Report that there are new records."""
        if self._thread is None:
            self.start()
        if not self._work.is_set():
            self._work.set()

    def flush(self, timeout: float) -> bool:
        """Wait until the store has every record that is there now; return whether it has, after at most `timeout`."""
        try:
            last = self._records.last_number()
            self.start()
            self._hurry.set()
            self._work.set()
            with self._idle:
                return self._idle.wait_for(lambda: not self._records.waiting(last), timeout)
        except OutboxError as error:
            self._failed(error)
            return False

    def stop(self, timeout: float) -> bool:
        """Stop the thread; return whether it has ended, after at most `timeout` seconds."""
        for event in (self._stopping, self._hurry, self._work):
            event.set()
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def close(self) -> None:
        """Release the file."""
        self._records.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._work.wait(min(self._backoff.left, _LOOK_AROUND) if self.failure else _LOOK_AROUND)
            self._hurry.wait(_LINGER)
            self._work.clear()
            self._before_each()
            try:
                if self._send_waiting():
                    self._hurry.clear()
            except OutboxError as error:
                self._failed(error)
            with self._idle:
                self._idle.notify_all()

    def _send_waiting(self) -> bool:
        """Send what waits; return whether nothing is left that could be sent now."""
        self._sent = _BATCH_SIZE
        delivery = deliver(self._records, self._send, _POLICY, patience=_PATIENCE, goes_on=self._goes_on)
        if not delivery.was_turn:
            self._work.set()
        elif delivery.stopped_by is not None:
            self._failed(delivery.stopped_by)
        for key, error in delivery.refused.items():
            _LOG.error("the store refuses the record %s, which stays in %s: %s", key, self._records.location, error)
        return delivery.stopped_by is None and not self._records.waiting()

    def _goes_on(self) -> bool:
        # After a part of a batch, records that were appended meanwhile are collected first.
        is_due = self._sent == _BATCH_SIZE or self._hurry.is_set()
        return is_due and not self._stopping.is_set() and self._backoff.admits()

    def _send(self, entries: Sequence[Entry[Interaction]]) -> list[None]:
        self._sink.record([entry.value for entry in entries])
        self._sent, self.failure = len(entries), ""
        self._backoff.worked()
        return [None] * len(entries)

    def _failed(self, error: Exception) -> None:
        if not self.failure:
            _LOG.warning("recorded interactions wait in %s: %s", self._records.location, error)
        self.failure = f"{type(error).__name__}: {error}"
        self._backoff.failed()
