"""The global memory as an agent reads it: sentences of who said what to whom, within a token budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from devmem import Hit, MemoryItem
from devmem.recording import InteractionKind
from devmem_stores.conversation.budget import newest_within
from devmem_stores.conversation.items import item_to_interaction
from devmem_stores.conversation.sentences import Language, sentence

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
