"""Items made of payloads: what every store type keeps of a node's write."""

from __future__ import annotations

from typing import Final

from devmem.model.caller import Turn
from devmem.model.items import MemoryItem, Provenance, SourceKind
from devmem.model.results import MemoryWritePayload, WriteOutcome, WriteStatus
from devmem.text.frames import framed_turns, strip_frames

AGENT_KEY: Final = "agent"
"""Metadata key of the name of the agent that wrote an item."""
_PREVIEW: Final = 200
"""Characters of the input that the metadata show, as DevAll's (ChatDev 2) do."""


def item_from(payload: MemoryWritePayload, summary: str, *, created_at: float) -> MemoryItem:
    """Return the item of a payload with a summary: snapshots, scope, times, trust and provenance are the payload's.

    A store type changes what it keeps otherwise with `dataclasses.replace`.

    `created_at` is in seconds since the epoch.
    """
    shown = payload.output_snapshot or payload.input_snapshot
    received_from = list(dict.fromkeys(turn.speaker for turn in turns_of(payload) if turn.speaker))
    return MemoryItem(
        content_summary=summary,
        metadata={
            **payload.metadata,
            "agent_role": payload.agent_role,
            "input_preview": strip_frames(payload.inputs_text)[:_PREVIEW],
            "attachments": [*(shown.attachment_overview() if shown else [])],
            **({"received_from": [*received_from]} if received_from else {}),
            **({AGENT_KEY: payload.caller.name} if payload.caller.name else {}),
        },
        created_at=created_at,
        event_time=payload.event_time,
        expires_at=payload.expires_at,
        input_snapshot=payload.input_snapshot,
        output_snapshot=payload.output_snapshot,
        scope=payload.scope,
        provenance=Provenance(kind=SourceKind.NODE, name=payload.source),
        trust=payload.trust,
    )


def turns_of(payload: MemoryWritePayload) -> tuple[Turn, ...]:
    """Return what each sender said to the node, in order; blank turns are left out."""
    turns = payload.turns
    if turns is None:
        turns = tuple(
            Turn(text=text, speaker=speaker, role=role) for speaker, role, text in framed_turns(payload.inputs_text)
        )
    return tuple(turn for turn in turns if turn.text.strip())


def skipped(reason: str) -> WriteOutcome:
    """Return the outcome of a payload that holds nothing for a store, with the reason."""
    return WriteOutcome(status=WriteStatus.SKIPPED, reason=reason)
