"""Delivery of what waits in an outbox: oldest first, each write once, until the receiver fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from devmem.collections.wrappers.outbox import Entry, Outbox
from devmem.errors import OutboxError

T = TypeVar("T")
R = TypeVar("R")

Send = Callable[[Sequence[Entry[T]]], Sequence[R]]
"""Hands writes to their receiver, all or none of them; returns one result for each."""


def _always(_error: Exception) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """Properties of a receiver that decide how it is written to."""

    batch: int = 1
    """Maximum number of writes handed over at once; 1 where single writes are refused."""
    failures: tuple[type[Exception], ...] = (Exception,)
    """Errors that end a delivery; what was not taken stays and is sent first the next time."""
    refusals: tuple[type[Exception], ...] = ()
    """Errors by which the receiver refuses a write for good: it is set aside, and the others go on."""
    idempotent: bool = True
    """Whether the receiver stores a repeated write once. Otherwise a write is marked before it is sent, so that after
    a crash the receiver can be asked for it first (`Entry.maybe_sent`)."""
    may_have_arrived: Callable[[Exception], bool] = _always
    """Whether a write that failed with this error may have reached the receiver."""


@dataclass(slots=True, kw_only=True)
class Delivery(Generic[R]):
    """Result of one pass through an outbox."""

    results: dict[str, R] = field(default_factory=dict)
    """Results of the writes that were taken, by key."""
    refused: dict[str, Exception] = field(default_factory=dict)
    """Errors of the writes that were set aside, by key."""
    stopped_by: Exception | None = None
    """Why it ended before everything was sent."""


def deliver(outbox: Outbox[T], send: Send[T, R], policy: DeliveryPolicy, *, patience: float) -> Delivery[R]:
    """Send what waits, oldest first, until nothing waits or the receiver fails.

    Args:
        outbox: the writes.
        send: hands them over.
        policy: how the receiver is written to.
        patience: seconds to wait for another thread or process that is sending.

    Raises:
        OutboxError: the outbox itself cannot be used.
    """
    delivery: Delivery[R] = Delivery()
    with outbox.turn(patience) as mine:
        if not mine:
            delivery.stopped_by = OutboxError(outbox.place, "another process is sending the writes that wait")
            return delivery
        while entries := outbox.oldest(policy.batch):
            keys = [entry.key for entry in entries]
            try:
                results = _sent(outbox, entries, send, policy)
            except policy.refusals as error:
                for key in keys:
                    outbox.reject(key, str(error))
                    delivery.refused[key] = error
            except policy.failures as error:
                delivery.stopped_by = error
                break
            else:
                # After a kill right before this the receiver has them too, and takes them once.
                outbox.remove(keys)
                delivery.results.update(zip(keys, results, strict=True))
    return delivery


def _sent(outbox: Outbox[T], entries: Sequence[Entry[T]], send: Send[T, R], policy: DeliveryPolicy) -> Sequence[R]:
    fresh = [] if policy.idempotent else [entry.key for entry in entries if not entry.maybe_sent]
    if fresh:
        outbox.mark(fresh, maybe_sent=True)
    try:
        return send(entries)
    except policy.failures as error:
        if fresh and not policy.may_have_arrived(error):
            outbox.mark(fresh, maybe_sent=False)
        raise
