"""ChatDev's payloads as devmem's, and devmem's items as ChatDev's: the JSON forms of both are the same."""

from __future__ import annotations

from typing import Any

from devmem import MemoryItem, MemoryWritePayload, Scope
from devmem.manager import load_payload
from devmem.stores import TRUST, SourceKind, dump_item


def payload_of(payload: Any, *, node: str, user: str | None) -> MemoryWritePayload:  # noqa: ANN401 - ChatDev's own
    """Return what a finished node of ChatDev writes.

    Args:
        payload: ChatDev's `MemoryWritePayload`.
        node: id of the node; empty where it is not known.
        user: whom it belongs to.
    """
    snapshots = {"input_snapshot": payload.input_snapshot, "output_snapshot": payload.output_snapshot}
    raw = {key: snapshot.to_dict() for key, snapshot in snapshots.items() if snapshot is not None}
    roles = {block.get("role") for block in raw.get("input_snapshot", {}).get("blocks", [])}
    kind = SourceKind.TOOL if "tool" in roles else SourceKind.NODE
    return load_payload(
        {
            **raw,
            "agent_role": payload.agent_role or "",
            "inputs_text": payload.inputs_text or "",
            "scope": Scope(user=user),
            "source": node,
            "trust": TRUST[kind],
        }
    )


def chatdev_form(item: MemoryItem) -> dict[str, Any]:
    """Return the JSON form from which ChatDev makes its item; what it has no field for is left out by it."""
    return dump_item(item)
