"""A record as an item, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.recording import Interaction, ParticipantType
from devmem.stores import Provenance, SourceKind, shorten

KEY: Final = "interaction"
"""Metadata key of the record's JSON form without its content, which the item's snapshot holds."""
_KINDS: Final[Mapping[ParticipantType, SourceKind]] = {
    ParticipantType.USER: SourceKind.USER,
    ParticipantType.TOOL: SourceKind.TOOL,
}


def interaction_to_item(interaction: Interaction, *, stored_at: float, summary_length: int) -> MemoryItem:
    """Return the item that keeps a record whole, under the record's id.

    Args:
        interaction: the record.
        stored_at: now, in seconds since the epoch.
        summary_length: maximum number of characters that are shown of it.
    """
    form = interaction.to_json()
    del form["content"]
    source = interaction.source
    return MemoryItem(
        id=interaction.id,
        content_summary=shorten(interaction.content, summary_length),
        metadata={KEY: form, "speaker": source.name},
        created_at=stored_at,
        event_time=interaction.event_time,
        output_snapshot=MemoryContentSnapshot(text=interaction.content),
        scope=Scope(user=interaction.user, conversation=interaction.conversation, trace=interaction.trace),
        provenance=Provenance(kind=_KINDS.get(source.type, SourceKind.NODE), name=source.name),
    )


def item_to_interaction(item: MemoryItem) -> Interaction | None:
    """Return the record that an item keeps; None for an item that is none."""
    form = item.metadata.get(KEY)
    if not isinstance(form, Mapping):
        return None
    snapshot = item.output_snapshot or item.input_snapshot
    text = snapshot.text if snapshot else item.content_summary
    try:
        return Interaction.from_json({**form, "content": text})
    except (KeyError, ValueError):
        # Imported from elsewhere, or edited: it is an item like any other, and no record.
        return None
