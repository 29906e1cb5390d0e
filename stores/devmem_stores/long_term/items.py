"""A message as an item, and an item as the message that it was."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import lru_cache
from hashlib import sha256

from devmem import MemoryItem, Scope
from devmem.messages import Message, dump_message, holds_message, item_to_message, message_to_item, readable_text
from devmem.stores import shorten


def item_id(scope: Scope, message_id: str) -> str:
    """Return the id of a message's item in one role's memory: the same message may be in several."""
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
    max_length: int,
    by_content: bool,
) -> MemoryItem:
    """Return the item of a message.

    Args:
        message: the message to keep.
        scope: owner of the memory.
        stored_at: seconds since the epoch.
        max_length: maximum number of characters of the summary.
        by_content: whether equal content makes two items the same, instead of equality in every part of the message.

    Raises:
        MessageError: the message has no JSON form.
    """
    item = message_to_item(
        message,
        item_id=item_id(scope, message.id),
        scope=scope,
        summary=shorten(readable_text(message), max_length),
        stored_at=stored_at,
    )
    return replace(item, content_hash=message.content_hash() if by_content else _hash_of_all(message))


def _hash_of_all(message: Message) -> str:
    return sha256(json.dumps(dump_message(message)).encode()).hexdigest()


def whole_text(item: MemoryItem) -> str:
    """Return the text of the message that an item keeps, or else its summary."""
    return item_to_message(item).text() if holds_message(item) else item.content_summary


def same_words(one: str, other: str) -> bool:
    """Whether two texts differ in white space and case at most."""
    return one.split() == other.split() or one.casefold().split() == other.casefold().split()
