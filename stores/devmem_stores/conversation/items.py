"""A record as an item, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.recording import Interaction, InteractionKind, ParticipantType
from devmem.stores import TRUST, Provenance, SourceKind, shorten

RECORD_KEY: Final = "interaction"
"""Metadata key that marks a record. The keys of its JSON form, but its content, stand beside it, so that filters on
`source`, `target`, `type` and the others work."""
_CONTENT: Final = "content"
"""Key of the JSON form that the item's snapshot holds."""
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
    form = {key: value for key, value in interaction.to_json().items() if key != _CONTENT}
    source = interaction.source
    is_summary = interaction.kind is InteractionKind.SUMMARY
    kind = SourceKind.SUMMARY if is_summary else _KINDS.get(source.type, SourceKind.NODE)
    return MemoryItem(
        id=interaction.id,
        content_summary=shorten(interaction.content, summary_length),
        metadata={RECORD_KEY: True, **form, "speaker": source.name},
        created_at=stored_at,
        event_time=interaction.event_time,
        output_snapshot=MemoryContentSnapshot(text=interaction.content),
        scope=Scope(
            user=interaction.user, conversation=interaction.conversation or None, trace=interaction.trace or None
        ),
        provenance=Provenance(kind=kind, name=source.name),
        trust=TRUST[kind],
    )


def item_to_interaction(item: MemoryItem) -> Interaction | None:
    """Return the record that an item keeps; None for an item that is none."""
    if item.metadata.get(RECORD_KEY) is not True:
        return None
    snapshot = item.output_snapshot or item.input_snapshot
    text = snapshot.text if snapshot else item.content_summary
    try:
        return Interaction.from_json({**item.metadata, _CONTENT: text})
    except (KeyError, TypeError, ValueError):
        # Imported from elsewhere, or edited: it is an item like any other, and no record.
        return None
