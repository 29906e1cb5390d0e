"""ChatGPT's export, `conversations.json`: each conversation is a tree of messages, of which one branch is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.contents import text_of_content
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.turns import Turn, read_conversations, speaker_of

_SAID: Final = ("text", "multimodal_text")
"""Types of contents that were said; others are thoughts, code for tools, and what tools returned."""


def is_chatgpt(raw: object) -> bool:
    """Whether an element of a document, or the document, is a conversation of the export."""
    return isinstance(raw, Mapping) and isinstance(raw.get("mapping"), Mapping) and "title" in raw


def read_chatgpt(conversations: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn of the branch that is shown.

    Answers that were replaced by others, prompts, thoughts and tools are left out.

    Raises:
        DataFileError: something is not as ChatGPT exports it.
    """
    yield from read_conversations(
        conversations,
        origin,
        is_one=is_chatgpt,
        expected="a conversation with `title` and `mapping`",
        turns=_turns,
    )


def _turns(raw: Mapping[str, Any], origin: Origin) -> Iterator[Turn]:
    name = str(raw.get("conversation_id") or raw.get("id") or origin.entry)
    for key in _shown_branch(raw, origin):
        here = replace(origin, entry=f"{origin.entry}.mapping[{key!r}]")
        message = raw["mapping"][key].get("message")
        if not isinstance(message, Mapping) or not _was_said(message):
            continue
        author = message.get("author")
        speaker = speaker_of(author.get("role")) if isinstance(author, Mapping) else None
        if speaker is None:
            continue
        time = message.get("create_time")
        yield Turn(
            text=text_of_content(message.get("content"), here),
            speaker=speaker,
            origin=here,
            id=str(message.get("id") or key),
            time=here.time("create_time", time) if time else None,
            conversation=name,
            metadata={"title": raw["title"]} if raw["title"] else {},
        )


def _shown_branch(raw: Mapping[str, Any], origin: Origin) -> list[str]:
    """Return the keys of the nodes from the first message to the one that is shown last."""
    nodes = raw["mapping"]
    at = raw.get("current_node")
    if at not in nodes:
        at = max(
            (key for key in nodes if not nodes[key].get("children")), key=lambda key: _time(nodes[key]), default=None
        )
    branch: list[str] = []
    while at is not None:
        if at not in nodes or not isinstance(nodes[at], Mapping) or len(branch) > len(nodes):
            raise origin.error(f"'mapping': {at!r} has no place in the tree of messages")
        branch.append(at)
        at = nodes[at].get("parent")
    return branch[::-1]


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, Mapping) else None
    return float(time) if isinstance(time, int | float) else 0.0


def _was_said(message: Mapping[str, Any]) -> bool:
    content, about = message.get("content"), message.get("metadata")
    hidden = isinstance(about, Mapping) and about.get("is_visually_hidden_from_conversation")
    kind = content.get("content_type") if isinstance(content, Mapping) else None
    return kind in _SAID and not hidden and message.get("recipient", "all") == "all"
