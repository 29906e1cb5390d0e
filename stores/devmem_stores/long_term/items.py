"""A message as an item, and an item as the message that it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from devmem import MemoryContentSnapshot, MemoryItem, Scope
from devmem.errors import MessageError
from devmem.messages import Message, Role, dump_message, dump_payload, load_message
from devmem.stores import Provenance, SourceKind, shorten

_FORM: Final = "message"
"""Key in an item's metadata: the message without what the item's snapshot holds."""
_KINDS: Final[Mapping[Role, SourceKind]] = {Role.USER: SourceKind.USER, Role.TOOL: SourceKind.TOOL}


def item_id(scope: Scope, message_id: str) -> str:
    """Name the item of a message in one role's memory: the same message may be in several."""
    return sha256(f"{_owner(scope)}\x1e{message_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


@lru_cache(maxsize=1024)
def _owner(scope: Scope) -> str:
    parts = (getattr(scope, each.name) for each in fields(scope))
    return "\x1f".join("" if part is None else f"={part}" for part in parts)


def item_of(
    message: Message,
    scope: Scope,
    *,
    stored_at: float,
    lifetime: float | None,
    max_length: int,
    by_content: bool,
) -> MemoryItem:
    """Make the item of a message.

    Args:
        message: what to keep.
        scope: whose it is.
        stored_at: seconds since the epoch.
        lifetime: seconds that it is kept; None for ever.
        max_length: characters that are shown.
        by_content: what was said makes the item the same as another, not every part of the message.

    Raises:
        MessageError: the message has no JSON form.
    """
    snapshot = MemoryContentSnapshot.from_message(message)
    whole = dump_message(message)
    form = {key: value for key, value in whole.items() if key not in {"content", "blocks"}}
    return MemoryItem(
        id=item_id(scope, message.id),
        content_summary=shorten(_shown(message), max_length),
        metadata={
            **({"speaker": message.source} if message.source else {}),
            "cause_by": message.cause_by,
            _FORM: form,
        },
        created_at=stored_at,
        event_time=message.created_at,
        input_snapshot=snapshot if message.is_user_message() else None,
        output_snapshot=None if message.is_user_message() else snapshot,
        scope=scope,
        provenance=Provenance(kind=_KINDS.get(message.role, SourceKind.NODE), name=message.source),
        expires_at=None if lifetime is None else stored_at + lifetime,
        content_hash=message.content_hash() if by_content else sha256(json.dumps(whole).encode()).hexdigest(),
    )


def _shown(message: Message) -> str:
    """Give the text, or what a message without one carries."""
    if message.text().strip() or message.instruct_content is None:
        return message.text()
    return json.dumps(dump_payload(message.instruct_content), ensure_ascii=False)


def message_of(item: MemoryItem) -> Message:
    """Give the message that an item was made of; what a workflow's node wrote becomes what an assistant said.

    Raises:
        MessageError: what was stored is no message any more; the error names the item.
    """
    snapshot = item.output_snapshot or item.input_snapshot
    form: Any = item.metadata.get(_FORM)
    when = item.created_at if item.event_time is None else item.event_time
    if not isinstance(form, Mapping) or snapshot is None:
        return Message(
            item.content_summary, role=Role.ASSISTANT, id=item.id, source=item.provenance.name, created_at=when
        )
    blocks = snapshot.to_message_blocks()
    try:
        return load_message({**form, "content": snapshot.text, "blocks": blocks})
    except MessageError as error:
        raise MessageError(f"item {item.id!r}: {error}") from error


def whole_text(item: MemoryItem) -> str:
    """Give the text of the message that an item was made of."""
    snapshot = item.output_snapshot or item.input_snapshot
    return item.content_summary if _FORM not in item.metadata or snapshot is None else message_of(item).text()


def same_words(one: str, other: str) -> bool:
    """Say whether two texts differ in white space and case at most."""
    return one.split() == other.split() or one.casefold().split() == other.casefold().split()
