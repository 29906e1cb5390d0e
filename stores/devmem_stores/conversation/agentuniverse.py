"""Records as agentUniverse stores them, converted.

There a question and its answer have the same source (the caller) and target (the callee), and only `type` differs; an
answer here has the answerer as its source. `metadata` holds what are fields here: pair id, time and parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any

from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.stores import parse_time

_KINDS = {"input": InteractionKind.INPUT, "output": InteractionKind.OUTPUT, "summarize": InteractionKind.SUMMARY}


def from_agentuniverse(row: Mapping[str, Any]) -> Interaction:
    """Return the record of a row of agentUniverse's conversation memory.

    Raises:
        KeyError: it has no id or no type.
        ValueError: its type or its time is none.
    """
    kind = _KINDS.get(str(row["type"]))
    if kind is None:
        raise ValueError(f"a record of agentUniverse is of type {', '.join(_KINDS)}, not {row['type']!r}")
    metadata = row.get("metadata") or {}
    caller = _participant(row.get("source"), row.get("source_type"))
    callee = _participant(row.get("target"), row.get("target_type"))
    source, target = (callee, caller) if kind is InteractionKind.OUTPUT else (caller, callee)
    return Interaction(
        id=str(row["id"]),
        conversation=str(row.get("conversation_id") or ""),
        trace=str(row.get("trace_id") or ""),
        source=source,
        target=target,
        kind=kind,
        content=str(row.get("content") or ""),
        event_time=parse_time(metadata.get("timestamp") or row.get("timestamp"), zone=UTC),
        pair_id=str(metadata.get("pair_id") or ""),
        params={"params": str(metadata["params"])} if metadata.get("params") else {},
        extras=dict(row.get("additional_args") or {}),
    )


def _participant(name: object, kind: object) -> Participant:
    known = {one.value for one in ParticipantType}
    return Participant(str(name or "unknown"), ParticipantType(kind) if kind in known else ParticipantType.UNKNOWN)
