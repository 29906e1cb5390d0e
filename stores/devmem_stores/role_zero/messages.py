"""The item of a message in one role's memory."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

from devmem import MemoryItem, Scope
from devmem.messages import Message, message_to_item, readable_text
from devmem.stores import shorten


def item_of(message: Message, scope: Scope, *, stored_at: float, limit: int) -> MemoryItem:
    """Return the item of a message in one memory.

    Args:
        message: the message to keep.
        scope: owner of the memory.
        stored_at: seconds since the epoch.
        limit: maximum number of characters of the summary.

    Raises:
        MessageError: the message has no JSON form.
    """
    item_id = item_id_of(message.id, scope)
    text = readable_text(message)
    summary = shorten(f"{message.source}: {text}" if message.source and text else text, limit)
    item = message_to_item(message, item_id=item_id, scope=scope, summary=summary, stored_at=stored_at, as_input=False)
    return replace(
        item,
        metadata={"role": message.role.value, **item.metadata},
        # The same message is the same item, whatever was changed in it since.
        content_hash=sha256(item_id.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def item_id_of(message_id: str, scope: Scope) -> str:
    """Return the id of a message's item in one memory: another role may have got the same message."""
    owner = json.dumps([scope.agent, scope.user, scope.session])
    return f"{message_id}@{sha256(owner.encode()).hexdigest()[:16]}"
