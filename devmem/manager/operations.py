"""The record of what a manager asked of its stores: kind, time, counts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from devmem.model.items import MemoryContentSnapshot, MemoryItem
from devmem.model.results import MemoryWritePayload
from devmem.model.stages import Stage

_LOG: Final = logging.getLogger(__name__)

OperationKind: TypeAlias = Literal["retrieve", "update", "search", "get", "recent", "add", "delete"]
"""`retrieve` and `update` are a manager's, at a stage; the others are calls of an `AttachmentHandle`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOperation:
    """One call of a store: a search, a write, a look-up or a deletion."""

    kind: OperationKind
    store: str
    stage: Stage | None
    """Stage of the node's execution; None for a call of an `AttachmentHandle`."""
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    """Duration."""
    items: int = 0
    """Number of items found, stored or deleted."""
    attachments: int = 0
    """Number of images, files and other blocks that came with them."""
    error: Exception | None = None
    """The store's failure; None when it did its part."""

    def __str__(self) -> str:
        done = f"failed: {self.error}" if self.error is not None else f"{self.items} items"
        more = f", {self.attachments} attachments" if self.attachments else ""
        at = f" at {self.stage.value}" if self.stage is not None else ""
        return f"{self.kind} {self.store!r}{at}: {done}{more} in {self.seconds * 1000:.1f} ms"


OperationHook: TypeAlias = Callable[[MemoryOperation], None]
"""Called after each operation, in the thread that did it."""


@dataclass(slots=True)
class OperationCounts:
    """Outcome of an operation, to be filled in while it is timed."""

    items: int = 0
    attachments: int = 0
    failure: Exception | None = None
    """A failure that the store dealt with itself, so that nothing is raised."""


@contextmanager
def timed(
    kind: OperationKind, store: str, stage: Stage | None, *, clock: Callable[[], float], report: OperationHook
) -> Iterator[OperationCounts]:
    """Time an operation and report it when it is over, also when it raises an exception."""
    counts, started_at, begin = OperationCounts(), clock(), time.perf_counter()
    try:
        yield counts
    except Exception as error:
        counts.failure = error
        raise
    finally:
        report(
            MemoryOperation(
                kind=kind,
                store=store,
                stage=stage,
                started_at=started_at,
                seconds=time.perf_counter() - begin,
                items=counts.items,
                attachments=counts.attachments,
                error=counts.failure,
            )
        )


def log_operation(operation: MemoryOperation) -> None:
    """Log an operation at the level `INFO`, with its fields as `extra`; failures are logged where they are caught."""
    fields = ("kind", "store", "stage", "seconds", "items", "attachments")
    _LOG.info("%s", operation, extra={f"memory_{name}": getattr(operation, name) for name in fields})


def attachments_of_items(items: Sequence[MemoryItem]) -> int:
    """Return the number of blocks in the snapshots of the items."""
    return sum(_blocks(item.input_snapshot) + _blocks(item.output_snapshot) for item in items)


def attachments_of_payload(payload: MemoryWritePayload) -> int:
    """Return the number of blocks in the snapshots of a payload."""
    return _blocks(payload.input_snapshot) + _blocks(payload.output_snapshot)


def _blocks(snapshot: MemoryContentSnapshot | None) -> int:
    return len(snapshot.blocks) if snapshot is not None else 0
