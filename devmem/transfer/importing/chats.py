"""Lists of chat messages: those of OpenAI's API, ShareGPT, LangChain, and states of LangGraph."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.records import (
    Origin,
    Turn,
    digest,
    read_conversations,
    speaker_of,
    text_of_content,
    turn_items,
)

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
"""Keys of a message of the chat completions API; one with others, such as a time, is read as a separate record."""
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
    seen: Counter[str] = Counter()
    for at, raw in enumerate(documents):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping) or not isinstance(raw.get("messages"), list):
            raise here.error("expected an object with `messages`")
        messages = replace(here, entry=f"{here.entry}.messages")
        yield from turn_items(_openai_turns(raw["messages"], messages, _name_of(raw, raw["messages"], seen)))


def read_sharegpt(conversations: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each turn of the conversations.

    Raises:
        DataFileError: something is not as ShareGPT has it.
    """
    expected = "a conversation whose turns have `from` and `value`"
    turns = partial(_sharegpt_turns, seen=Counter())
    yield from read_conversations(conversations, origin, is_one=is_sharegpt, expected=expected, turns=turns)


def read_langchain(document: object, origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message of users and models; prompts and tools are left out.

    Raises:
        DataFileError: something is not a message of LangChain.
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


def _sharegpt_turns(conversation: Mapping[str, Any], origin: Origin, *, seen: Counter[str]) -> Iterator[Turn]:
    key = next(key for key in _LISTS if isinstance(conversation.get(key), list))
    name = _name_of(conversation, conversation[key], seen)
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


def _name_of(raw: Mapping[str, Any], turns: object, seen: Counter[str]) -> str:
    """Return the id of a conversation, or one of its content and its number among the equal ones of its file."""
    if own := raw.get("id") or raw.get("conversation_id"):
        return str(own)
    made = digest(turns)[:12]
    seen[made] += 1
    return made if seen[made] == 1 else f"{made}-{seen[made]}"


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
        yield Turn(
            text=text_of_content(message.get("content"), here),
            speaker=speaker,
            origin=here,
            id=str(message.get("id") or key),
            time=here.event_time("create_time", message.get("create_time") or None),
            conversation=name,
            metadata={"title": raw["title"]} if raw["title"] else {},
        )


def _shown_branch(raw: Mapping[str, Any], origin: Origin) -> list[str]:
    """Return the keys of the nodes from the first message to the one that is shown last."""
    nodes = {key: node for key, node in raw["mapping"].items() if isinstance(node, Mapping)}
    at = raw.get("current_node")
    if at not in nodes:
        above = {node.get("parent") for node in nodes.values()}
        at = max((key for key in nodes if key not in above), key=lambda key: _time(nodes[key]), default=None)
    branch: list[str] = []
    while at is not None:
        if at not in nodes or len(branch) > len(nodes):
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


def is_claude(raw: object) -> bool:
    """Whether an element of a document, or the document, is a conversation of the export."""
    return isinstance(raw, Mapping) and isinstance(raw.get("chat_messages"), list)


def read_claude(conversations: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message that has a text; attached files are named.

    Raises:
        DataFileError: something is not as Claude exports it.
    """
    expected = "a conversation with `chat_messages`"
    yield from read_conversations(conversations, origin, is_one=is_claude, expected=expected, turns=_claude_turns)


def _claude_turns(raw: Mapping[str, Any], origin: Origin) -> Iterator[Turn]:
    name = str(raw.get("uuid") or origin.entry)
    for at, message in enumerate(raw["chat_messages"]):
        here = replace(origin, entry=f"{origin.entry}.chat_messages[{at}]")
        if not isinstance(message, Mapping):
            raise here.error(f"expected a message, found {type(message).__name__}")
        speaker = speaker_of(message.get("sender"))
        if speaker is None:
            raise here.error(f"'sender': expected 'human' or 'assistant', found {message.get('sender')!r}")
        yield Turn(
            text=_text(message, here),
            speaker=speaker,
            origin=here,
            id=str(message["uuid"]) if message.get("uuid") else None,
            time=here.event_time("created_at", message.get("created_at")),
            conversation=name,
            metadata={"title": raw["name"]} if raw.get("name") else {},
        )


def _text(message: Mapping[str, Any], origin: Origin) -> str:
    said = text_of_content(message.get("content"), origin) or text_of_content(message.get("text"), origin)
    files = [one for key in ("attachments", "files") for one in message.get(key) or () if isinstance(one, Mapping)]
    named = [f"[file: {one['file_name']}]" for one in files if one.get("file_name")]
    return "\n".join([*([said] if said else []), *named])


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
_TS: Final = re.compile(r"\d{9,11}\.\d+")
_SLACK_SAID: Final = (None, "bot_message", "me_message", "thread_broadcast", "file_share", "reply_broadcast")
"""Subtypes of what somebody said; others are notices, as of who joined."""
_MARKUP: Final = re.compile(r"<([@#!]?)([^>|]+)(?:\|([^>]*))?>")


def is_slack(raw: object) -> bool:
    """Whether an element of a document is a message of Slack."""
    return isinstance(raw, Mapping) and isinstance(raw.get("ts"), str) and bool(_TS.fullmatch(raw["ts"]))


def slack_users(document: object) -> dict[str, str]:
    """Return the names of the users in `users.json` of an export, by their ids."""
    names = {}
    for raw in document if isinstance(document, list) else ():
        profile = raw.get("profile") if isinstance(raw, Mapping) else None
        if isinstance(profile, Mapping) and raw.get("id"):
            name = profile.get("display_name") or profile.get("real_name") or raw.get("real_name") or raw.get("name")
            names[str(raw["id"])] = str(name or raw["id"])
    return names


def read_slack(messages: list[object], origin: Origin, users: Mapping[str, str] | None = None) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text; the channel is the conversation, a thread the session.

    Raises:
        DataFileError: something is not as Slack exports it.
    """
    channel = origin.path.parent.name if _DAY.fullmatch(origin.path.name) else None
    names = {**(users or {}), **_names(messages)}
    yield from turn_items(_slack_turns(messages, names, channel or None, origin))


def _slack_turns(
    messages: list[object], names: Mapping[str, str], channel: str | None, origin: Origin
) -> Iterator[Turn]:
    for at, raw in enumerate(messages):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping) or not is_slack(raw):
            raise here.error("expected a message with `ts`")
        if raw.get("subtype") not in _SLACK_SAID:
            continue
        user = str(raw.get("user") or raw.get("bot_id") or "")
        yield Turn(
            text=_slack_text(raw, names),
            speaker=names.get(user) or str(raw.get("username") or user),
            origin=here,
            id=digest(channel, raw["ts"], user, raw.get("text")),
            time=float(raw["ts"]),
            conversation=channel,
            session=str(raw["thread_ts"]) if raw.get("thread_ts") else None,
        )


def _names(messages: list[object]) -> dict[str, str]:
    """Return the names of the users whose profiles are in the messages, by their ids."""
    found = {}
    for raw in messages:
        profile = raw.get("user_profile") if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and isinstance(profile, Mapping) and raw.get("user"):
            name = profile.get("display_name") or profile.get("real_name") or profile.get("name")
            if name:
                found[str(raw["user"])] = str(name)
    return found


def _slack_text(raw: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return what was said, without Slack's markup; files are named."""

    def plain(match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind == "@":
            return f"@{label or names.get(target, target)}"
        return f"{'#' if kind == '#' else ''}{label or target}"

    attached = [one for one in raw.get("attachments") or () if isinstance(one, Mapping)]
    shown = [str(one.get("text") or one.get("fallback") or "") for one in attached]
    text = raw.get("text") or "\n".join(filter(None, shown))
    said = html.unescape(_MARKUP.sub(plain, str(text)))
    files = [one.get("name") for one in raw.get("files") or () if isinstance(one, Mapping)]
    return "\n".join([*([said] if said else []), *(f"[file: {name}]" for name in files if name)])
