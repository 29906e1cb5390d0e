"""Receipts of operations: what a write or a deletion did, for whoever repeats it after a crash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from pydantic_ai_harness.memory import MemoryMutation, MemoryOperation, MemoryOperationConflictError

from devmem import MemoryItem, Scope
from devmem.stores import Provenance, SourceKind

KEPT: Final = timedelta(days=30)
"""Time after which a receipt expires."""
_RECEIPT: Final = "pydantic_ai.receipt"
"""Metadata key of a receipt, and the name of its source."""


def receipt_id(operation: MemoryOperation, scope: Scope) -> str:
    """Return the id of the item of an operation's receipt; in another scope it is another item."""
    named = json.dumps([_RECEIPT, operation.id, scope.user, scope.agent, scope.session, scope.conversation])
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def receipt_of(
    operation: MemoryOperation, scope: Scope, now: float, *, version: str | None, existed: bool
) -> MemoryItem:
    """Return the receipt of an operation, an item without text, which no search finds.

    Args:
        operation: what was done.
        scope: whom the files belong to.
        now: seconds since the epoch.
        version: of the file that was written; None for a deletion.
        existed: whether there was a file before.
    """
    facts = {"fingerprint": operation.fingerprint, "version": version, "existed": existed}
    return MemoryItem(
        id=receipt_id(operation, scope),
        content_summary="",
        metadata={_RECEIPT: facts},
        created_at=now,
        expires_at=now + KEPT.total_seconds(),
        scope=scope,
        provenance=Provenance(kind=SourceKind.TOOL, name=_RECEIPT),
    )


def result_of(operation: MemoryOperation, found: Sequence[MemoryItem]) -> MemoryMutation | None:
    """Return what an operation did, by the items of its receipt's id; None when it was not done.

    Raises:
        MemoryOperationConflictError: another operation has the same id.
    """
    if not found:
        return None
    facts: Any = found[0].metadata[_RECEIPT]
    if facts["fingerprint"] != operation.fingerprint:
        raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
    return MemoryMutation(version=facts["version"], replayed=True, existed=facts["existed"])
