"""Lists of chat messages: those of OpenAI's API, ShareGPT, LangChain, and states of LangGraph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.contents import text_of_content
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.turns import Turn, digest, read_conversations, speaker_of, turn_items

_OF_OPENAI: Final = frozenset(
    {
        "role",
        "content",
        "name",
        "refusal",
        "annotations",
        "audio",
        "weight",
        "function_call",
        "tool_calls",
        "tool_call_id",
    }
)
"""Keys of a message of the chat completions API; one with others, such as a time, is read as a record of its own."""
_OPENAI_ROLES: Final = ("assistant", "developer", "function", "system", "tool", "user")
_LANGCHAIN_TYPES: Final = ("human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk")
_LISTS: Final = ("conversations", "conversation", "messages")
_ID_LENGTH: Final = 16
"""Length from which an id names one message everywhere."""


def is_openai_messages(document: object) -> bool:
    """Whether a document is a list of messages of the chat completions API, or an object that has one."""
    return _is_list_of(document, _is_openai) or (isinstance(document, Mapping) and is_openai_example(document))


def is_openai_example(raw: object) -> bool:
    """Whether an object has `messages` of the chat completions API, as a line of a fine-tuning file."""
    return isinstance(raw, Mapping) and _is_list_of(raw.get("messages"), _is_openai)


def is_sharegpt(raw: object) -> bool:
    """Whether an object is a conversation of ShareGPT, whose turns have `from` and `value`."""
    return isinstance(raw, Mapping) and any(_is_list_of(raw.get(key), _is_sharegpt_turn) for key in _LISTS)


def is_langchain(document: object) -> bool:
    """Whether a document is a list of LangChain's messages, or an object that has one, as a state of LangGraph."""
    return bool(_langchain_messages(document))


def read_openai_messages(documents: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn; `documents` are messages, or objects with `messages`, each a conversation.

    Raises:
        DataFileError: something is not such a message.
    """
    if not any(isinstance(raw, Mapping) and "messages" in raw for raw in documents):
        yield from turn_items(_openai_turns(documents, origin, None))
        return
    for at, raw in enumerate(documents):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping) or not isinstance(raw.get("messages"), list):
            raise here.error("expected an object with `messages`")
        messages = replace(here, entry=f"{here.entry}.messages")
        yield from turn_items(_openai_turns(raw["messages"], messages, _name_of(raw, raw["messages"])))


def read_sharegpt(conversations: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn of the conversations.

    Raises:
        DataFileError: something is not as ShareGPT has it.
    """
    expected = "a conversation whose turns have `from` and `value`"
    yield from read_conversations(conversations, origin, is_one=is_sharegpt, expected=expected, turns=_sharegpt_turns)


def read_langchain(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message of users and models; prompts and tools are left out.

    Raises:
        DataFileError: something is no message of LangChain.
    """
    messages = _langchain_messages(document)
    if not messages:
        raise origin.error("expected a list of LangChain's messages, or an object with `messages`")
    yield from turn_items(_langchain_turns(messages, origin, digest(messages)[:12]))


def count_listed(documents: list[object]) -> int:
    """Count the messages of conversations, or the elements themselves where they are messages."""
    return sum(
        next((len(raw[key]) for key in _LISTS if isinstance(raw.get(key), list)), 1) if isinstance(raw, Mapping) else 1
        for raw in documents
    )


def count_langchain(document: object) -> int:
    """Count the messages of a document."""
    return len(_langchain_messages(document))


def _openai_turns(messages: list[object], origin: Origin, name: str | None) -> Iterator[Turn]:
    name = name or digest(messages)[:12]
    for at, raw in enumerate(messages):
        here = replace(origin, entry=f"{origin.entry}[{at}]")
        if not isinstance(raw, Mapping) or raw.get("role") not in _OPENAI_ROLES:
            raise here.error(f"expected a message with one of the roles {', '.join(_OPENAI_ROLES)}")
        speaker = speaker_of(raw["role"])
        if speaker is not None:
            said_by = {"name": raw["name"]} if raw.get("name") else {}
            text = text_of_content(raw.get("content"), here)
            yield Turn(text=text, speaker=speaker, origin=here, conversation=name, metadata=said_by)


def _sharegpt_turns(conversation: Mapping[str, Any], origin: Origin) -> Iterator[Turn]:
    key = next(key for key in _LISTS if isinstance(conversation.get(key), list))
    name = _name_of(conversation, conversation[key])
    for at, raw in enumerate(conversation[key]):
        here = replace(origin, entry=f"{origin.entry}.{key}[{at}]")
        if not isinstance(raw, Mapping) or not _is_sharegpt_turn(raw):
            raise here.error("expected a turn with `from` and `value`")
        speaker = speaker_of(raw["from"])
        if speaker is not None:
            yield Turn(text=text_of_content(raw["value"], here), speaker=speaker, origin=here, conversation=name)


def _langchain_turns(messages: list[object], origin: Origin, name: str) -> Iterator[Turn]:
    for at, raw in enumerate(messages):
        here = replace(origin, entry=f"{origin.entry}[{at}]")
        plain = _langchain_message(raw)
        if plain is None:
            raise here.error("expected a message of LangChain")
        kind, fields = plain
        speaker = speaker_of(fields.get("role") if kind == "chat" else kind)
        if speaker is None:
            continue
        own = fields.get("id")
        yield Turn(
            text=text_of_content(fields.get("content"), here),
            speaker=speaker,
            origin=here,
            id=own if isinstance(own, str) and len(own) >= _ID_LENGTH else None,
            conversation=name,
            metadata={"name": fields["name"]} if fields.get("name") else {},
        )


def _langchain_messages(document: object) -> list[object]:
    """Return the messages of a list, of an object with `messages`, or of a state with `values`; else none."""
    if isinstance(document, Mapping):
        values = document.get("values", document.get("channel_values", document))
        document = values.get("messages") if isinstance(values, Mapping) else None
    if not isinstance(document, list) or not document or _langchain_message(document[0]) is None:
        return []
    return document


def _langchain_message(raw: object) -> tuple[str, Mapping[str, Any]] | None:
    """Return kind and fields of a message: of `messages_to_dict`, `dumpd` or `model_dump`; None for anything else."""
    if not isinstance(raw, Mapping):
        return None
    if raw.get("lc") is not None and isinstance(raw.get("id"), list) and isinstance(raw.get("kwargs"), Mapping):
        kind = str(raw["id"][-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return (kind, raw["kwargs"]) if kind in _LANGCHAIN_TYPES else None
    named = raw.get("type")
    if named not in _LANGCHAIN_TYPES:
        return None
    if isinstance(raw.get("data"), Mapping):
        return str(named), raw["data"]
    return (str(named), raw) if "content" in raw and "role" not in raw else None


def _is_list_of(raw: object, is_one: Any) -> bool:  # noqa: ANN401 - a test of an element
    return isinstance(raw, list) and bool(raw) and all(map(is_one, raw))


def _is_openai(raw: object) -> bool:
    return isinstance(raw, Mapping) and raw.get("role") in _OPENAI_ROLES and raw.keys() <= _OF_OPENAI


def _is_sharegpt_turn(raw: object) -> bool:
    return isinstance(raw, Mapping) and isinstance(raw.get("from"), str) and "value" in raw


def _name_of(raw: Mapping[str, Any], turns: object) -> str:
    """Return the id of a conversation, or one by which the same conversation has the same name next time."""
    own = raw.get("id") or raw.get("conversation_id")
    return str(own) if own else digest(turns)[:12]
