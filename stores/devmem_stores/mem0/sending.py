"""Getting writes to mem0: through the outbox in order, each of them once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from devmem import WriteOutcome
from devmem.stores import WriteStatus
from devmem_stores.mem0.backend import Backend, Write
from devmem_stores.mem0.errors import Mem0Error, Mem0RejectedError, Mem0ScopeError
from devmem_stores.mem0.guard import Guard
from devmem_stores.mem0.items import WRITE_KEY
from devmem_stores.mem0.outbox import Outbox

_LOG: Final = logging.getLogger(__name__)
_PAGE: Final = 100


@dataclass(slots=True)
class _Round:
    """What became of the writes of one go through the outbox."""

    ids: dict[str, str | None] = field(default_factory=dict)
    refused: dict[str, Mem0Error] = field(default_factory=dict)
    stopped_by: Mem0Error | None = None


class Sender:
    """Sends writes; safe to use from several threads."""

    def __init__(self, name: str, backend: Backend, guard: Guard, outbox: Outbox | None, *, patience: float) -> None:
        """Make a sender.

        Args:
            name: the store's, for messages.
            backend: where the writes go.
            guard: makes requests again.
            outbox: keeps what was not sent yet; None sends directly.
            patience: seconds to wait for another process that is sending.
        """
        self._name, self._backend, self._guard, self._outbox = name, backend, guard, outbox
        self._patience = patience

    def send(self, write: Write) -> WriteOutcome:
        """Send what waits, then the write.

        Raises:
            Mem0Error: it was not sent, and there is no outbox to keep it (or it cannot be used).
        """
        if self._outbox is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=self._deliver(write, maybe_sent=False))
        self._outbox.put(write)
        result = self._drain(self._outbox)
        # Asked of the file, because another thread or process may have sent it meanwhile.
        refusal = self._outbox.refusal(write.key)
        if refusal is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=result.ids.get(write.key))
        if refusal:
            refused = result.refused.get(write.key) or Mem0RejectedError("add", refusal)
            reason = f"{refusal} It stays in {self._outbox.file}."
            return WriteOutcome(status=WriteStatus.SKIPPED, reason=reason, failure=refused)
        stopped = result.stopped_by or Mem0Error("add", "it was not its turn yet")
        reason = f"it waits in {self._outbox.file} and is sent later: {stopped}"
        return WriteOutcome(status=WriteStatus.QUEUED, reason=reason, failure=stopped)

    def catch_up(self) -> int:
        """Try to send what waits; gives how many writes still do. Whoever wrote them was told already."""
        if self._outbox is None or not self._outbox.waiting():
            return 0
        result = self._drain(self._outbox)
        waiting = self._outbox.waiting()
        if waiting:
            _LOG.warning(
                "memory store %r: %d write(s) wait in %s: %s", self._name, waiting, self._outbox.file, result.stopped_by
            )
        return waiting

    def _drain(self, outbox: Outbox) -> _Round:
        """Send what waits, oldest first, until something fails."""
        result = _Round()
        with outbox.turn(self._patience) as mine:
            if not mine:
                result.stopped_by = Mem0Error("add", "another process is sending the writes that wait")
                return result
            while (entry := outbox.oldest()) is not None:
                write, maybe_sent = entry
                try:
                    result.ids[write.key] = self._send_kept(outbox, write, maybe_sent=maybe_sent)
                except (Mem0RejectedError, Mem0ScopeError) as error:
                    _LOG.error("memory store %r: %s The write stays in %s.", self._name, error, outbox.file)
                    outbox.set_aside(write.key, error)
                    result.refused[write.key] = error
                except Mem0Error as error:
                    result.stopped_by = error
                    break
        return result

    def _send_kept(self, outbox: Outbox, write: Write, *, maybe_sent: bool) -> str | None:
        if not maybe_sent:
            outbox.note_sending(write.key, maybe_sent=True)
        try:
            memory_id = self._deliver(write, maybe_sent=maybe_sent)
        except Mem0Error as error:
            if not maybe_sent and not error.maybe_done:
                outbox.note_sending(write.key, maybe_sent=False)
            raise
        outbox.remove(write.key)
        return memory_id

    def _deliver(self, write: Write, *, maybe_sent: bool) -> str | None:
        """Send a write, and give its first memory's id; one that perhaps arrived before is looked for first."""
        doubtful = maybe_sent

        def attempt() -> str | None:
            nonlocal doubtful
            if doubtful and (there := self._find(write)) is not None:
                return there
            try:
                return self._backend.add(write)
            except Mem0Error as error:
                doubtful = doubtful or error.maybe_done
                raise

        try:
            return self._guard.call("add", attempt)
        except Mem0Error as error:
            # The last try may have failed before it was sent, an earlier one after it.
            error.maybe_done = doubtful
            raise

    def _find(self, write: Write) -> str | None:
        """Look for a memory that was made of the write."""
        number = 1
        while True:
            page = self._backend.page(write.ids, number, _PAGE, {WRITE_KEY: write.key})
            for record in page.records:
                if record.marked(WRITE_KEY) == write.key:
                    return record.id
            if not page.more:
                return None
            number += 1
