"""Writes on their way to mem0: through the outbox in order, each of them once."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from devmem import MemoryItem, WriteOutcome
from devmem.storage import Delivery, DeliveryPolicy, Entry, Outbox, deliver
from devmem.stores import WriteStatus
from devmem_stores.mem0.backend import PAGE, Backend, Ids, Retrier, Write, every_record
from devmem_stores.mem0.errors import Mem0Error, Mem0RejectedError, Mem0ScopeError
from devmem_stores.mem0.items import WRITE_KEY, Record, to_item

_LOG: Final = logging.getLogger(__name__)


def open_outbox(file: Path, store: str) -> Outbox[Write]:
    """Return the outbox of a store in a file."""
    return Outbox(file, dump=lambda write: json.dumps(asdict(write)), load=_load, place=store)


def _load(body: str) -> Write:
    raw = json.loads(body)
    try:
        return Write(**{**raw, "ids": Ids(**raw["ids"])})
    except (TypeError, LookupError) as error:
        raise ValueError(f"no write of this version: {error}") from error


def item_of_write(write: Write) -> MemoryItem:
    """Return the item that a write would become, under the key of the write."""
    ids = write.ids
    record = Record(
        id=write.key,
        memory=write.text,
        metadata=dict(write.metadata),
        user_id=ids.user_id,
        agent_id=ids.agent_id,
        run_id=ids.run_id,
    )
    return replace(to_item(record), id=write.key)


def _may_have_arrived(error: Exception) -> bool:
    return not isinstance(error, Mem0Error) or error.maybe_done


_POLICY: Final = DeliveryPolicy(
    failures=(Mem0Error,),
    refusals=(Mem0RejectedError, Mem0ScopeError),
    idempotent=False,
    may_have_arrived=_may_have_arrived,
)


class Sender:
    """Sends writes; safe to use from several threads."""

    def __init__(
        self, name: str, backend: Backend, retrier: Retrier, outbox: Outbox[Write] | None, *, patience: float
    ) -> None:
        """Make a sender.

        Args:
            name: the store's, for messages.
            backend: where the writes go.
            retrier: repeats requests.
            outbox: keeps what was not sent yet; None sends directly.
            patience: seconds to wait for another process that is sending.
        """
        self._name, self._backend, self._retrier, self._outbox = name, backend, retrier, outbox
        self._patience = patience

    def send(self, write: Write) -> WriteOutcome:
        """Send what waits, then the write.

        Raises:
            Mem0Error: it was not sent, and there is no outbox to keep it.
            OutboxError: the outbox cannot be used.
        """
        if self._outbox is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=self._send(write, maybe_sent=False))
        self._outbox.put({write.key: write})
        delivery = self._deliver(self._outbox)
        # Asked of the file, because another thread or process may have sent it meanwhile.
        rejection = self._outbox.refusal(write.key)
        if rejection is None:
            return WriteOutcome(status=WriteStatus.STORED, item_id=delivery.results.get(write.key))
        if rejection:
            failure = delivery.refused.get(write.key) or Mem0RejectedError("add", rejection)
            reason = f"{rejection} It stays in {self._outbox.location}."
            return WriteOutcome(status=WriteStatus.SKIPPED, reason=reason, failure=failure)
        stopped = delivery.stopped_by or Mem0Error("add", "it was not its turn yet")
        reason = f"it waits in {self._outbox.location} and is sent later: {stopped}"
        return WriteOutcome(status=WriteStatus.QUEUED, reason=reason, failure=stopped)

    def catch_up(self, outbox: Outbox[Write]) -> None:
        """Try to send what waits; what still does is logged."""
        stopped = self._deliver(outbox).stopped_by
        if waiting := outbox.waiting():
            _LOG.warning("memory store %r: %d write(s) wait in %s: %s", self._name, waiting, outbox.location, stopped)

    def _deliver(self, outbox: Outbox[Write]) -> Delivery[str | None]:
        def send(entries: Sequence[Entry[Write]]) -> list[str | None]:
            return [self._send(entry.value, maybe_sent=entry.attempts > 0) for entry in entries]

        delivery = deliver(outbox, send, _POLICY, patience=self._patience)
        for error in delivery.refused.values():
            _LOG.error("memory store %r: %s The write stays in %s.", self._name, error, outbox.location)
        return delivery

    def _send(self, write: Write, *, maybe_sent: bool) -> str | None:
        """Send a write and return its first memory's id; one that may have arrived before is looked for first."""
        in_doubt = maybe_sent

        def attempt() -> str | None:
            nonlocal in_doubt
            if in_doubt and (there := self._find(write)) is not None:
                return there
            try:
                return self._backend.add(write)
            except Mem0Error as error:
                in_doubt = in_doubt or error.maybe_done
                raise

        try:
            return self._retrier.call("add", attempt)
        except Mem0Error as error:
            # The last attempt may have failed before it was sent, an earlier one after it.
            error.maybe_done = in_doubt
            raise

    def _find(self, write: Write) -> str | None:
        """Return the id of a memory that was made of the write; None when there is none."""
        mark = {WRITE_KEY: write.key}
        found = every_record(lambda number: self._backend.page(write.ids, number, PAGE, mark))
        # Compared again, because a server may not know filters by metadata.
        return next((record.id for record in found if record.marked(WRITE_KEY) == write.key), None)
