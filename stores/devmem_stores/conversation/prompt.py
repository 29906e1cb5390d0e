"""The global memory as an agent reads it: sentences of who said what to whom, within a token budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from devmem import Hit, MemoryItem
from devmem.recording import InteractionKind
from devmem.text import estimate_tokens, shorten
from devmem_stores.conversation.items import Language, item_to_interaction, sentence

_WORTH_SHOWING: Final = 20
"""Least number of tokens of room for which an older text is shortened and not left out."""


def newest_within(texts: Sequence[str], max_tokens: int) -> list[str]:
    """Return the last of the texts that fit together, in their order.

    The first that does not fit whole is shortened to the room that is left, the newest of all always; what is older is
    left out.
    """
    kept: list[str] = []
    room = max_tokens
    for text in reversed(texts):
        tokens = estimate_tokens(text)
        if tokens > room:
            if not kept or room >= _WORTH_SHOWING:
                kept.append(within(text, room))
            break
        kept.append(text)
        room -= tokens
    return kept[::-1]


def within(text: str, max_tokens: int) -> str:
    """Return a text, shortened where it has more than `max_tokens` estimated tokens."""
    if estimate_tokens(text) <= max_tokens:
        return text
    fits, too_long = 0, len(text)
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        if estimate_tokens(shorten(text, length)) <= max_tokens:
            fits = length
        else:
            too_long = length
    return shorten(text, max(fits, 1))


_ROLE: Final = re.compile(r"\A\((?:system|user|assistant|tool)\) ")
"""The role that a snapshot of messages begins with."""


def worded(item: MemoryItem, *, me: str | None, language: Language) -> MemoryItem:
    """Return an item with its record worded as a sentence; one that is no record is unchanged.

    Args:
        item: the item.
        me: name of the agent that reads it, which is addressed as "you".
        language: of the sentence.
    """
    record = item_to_interaction(item)
    if record is None:
        return item
    shown = sentence(replace(record, content=item.content_summary), me=me, language=language)
    question = _ROLE.sub("", item.input_snapshot.text).strip() if item.input_snapshot else ""
    if question and record.kind is InteractionKind.OUTPUT:
        # An attachment wrote the answer with its question beside it.
        asked = replace(
            record, kind=InteractionKind.INPUT, content=question, source=record.target, target=record.source
        )
        shown = f"{sentence(asked, me=me, language=language)}\n{shown}"
    return replace(item, content_summary=shown)


def chronological_hits(items: Sequence[MemoryItem], max_tokens: int | None) -> list[Hit]:
    """Return items, the oldest first, as hits in their order; the newest ones that are within a token budget."""
    texts = [item.content_summary for item in items]
    kept = texts if max_tokens is None else newest_within(texts, max_tokens)
    shown = zip(items[len(items) - len(kept) :], kept, strict=True)
    return [
        Hit(item=item if item.content_summary == text else replace(item, content_summary=text), score=1 / (1 + place))
        for place, (item, text) in enumerate(shown)
    ]
