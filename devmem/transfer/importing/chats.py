"""Conversations of programs: OpenAI's API, ShareGPT, LangChain, ChatGPT, Claude, Open WebUI and Slack."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias

from devmem.model.items import MemoryItem
from devmem.model.times import time_key
from devmem.transfer.importing.files import LISTS, FileReader
from devmem.transfer.importing.records import (
    ChatTurn,
    Line,
    Position,
    digest,
    numbered,
    read_each,
    shaped,
    speaker_of,
    text_of_content,
    turn_items,
    unique_id,
    with_files,
)

_Nodes: TypeAlias = list[tuple[Mapping[str, Any], Position]]
_Reader: TypeAlias = Callable[[Iterable[Line]], Iterator[MemoryItem]]
NOT_SAID: Final = "prompts, thoughts, and calls and results of tools"
"""Reason for which messages of conversations are left out."""
_OF_OPENAI: Final = frozenset(
    "role content name refusal annotations audio weight function_call tool_calls tool_call_id".split()
)
"""Keys of a message of the chat completions API; in a list, one with others, such as a time, is a separate record."""
_OPENAI_ROLES: Final = ("assistant", "developer", "function", "system", "tool", "user")
_LANGCHAIN_TYPES: Final = ("human", "ai", "system", "tool", "function", "chat", "HumanMessageChunk", "AIMessageChunk")
_LISTS: Final = ("conversations", "conversation", "messages")
_NAMING: Final = 50
"""Number of messages by which a conversation without an id is told from others."""
_ID_LENGTH: Final = 16
"""Length from which an id names one message everywhere."""


def is_openai_message(raw: object) -> bool:
    """Whether an object is a message of the chat completions API."""
    return isinstance(raw, Mapping) and raw.get("role") in _OPENAI_ROLES and raw.keys() <= _OF_OPENAI


def is_openai_example(raw: object) -> bool:
    """Whether an object has `messages` of the chat completions API, as a line of a fine-tuning file."""
    return _is_list_of(_list_at(raw, "messages"), is_openai_message)


def is_sharegpt(raw: object) -> bool:
    """Whether an object is a conversation of ShareGPT, whose turns have `from` and `value`."""
    return any(_is_list_of(_list_at(raw, key), _is_sharegpt_turn) for key in _LISTS)


def is_langchain(raw: object) -> bool:
    """Whether an object has messages of LangChain, as a state of LangGraph."""
    _, messages = _langchain_state(raw)
    return bool(messages) and is_langchain_message(messages[0])


def is_langchain_message(raw: object) -> bool:
    """Whether an object is a message of LangChain."""
    return _langchain_message(raw) is not None


def _is_list_of(raw: Sequence[object], is_one: Callable[[object], bool]) -> bool:
    return bool(raw) and all(map(is_one, islice(raw, _NAMING)))


def _is_sharegpt_turn(raw: object) -> bool:
    return isinstance(raw, Mapping) and isinstance(raw.get("from"), str) and "value" in raw


def _langchain_state(raw: object) -> tuple[str, Sequence[object]]:
    """Return the key and the messages of an object with `messages`, or of a state with `values`."""
    values = raw.get("values", raw.get("channel_values", raw)) if isinstance(raw, Mapping) else None
    return _first_list(values, ("messages",))


def _first_list(raw: object, keys: Iterable[str]) -> tuple[str, Sequence[object]]:
    """Return the first key of an object that has a list, and the list; empty where none has."""
    fields = raw if isinstance(raw, Mapping) else {}
    return next(((key, fields[key]) for key in keys if isinstance(fields.get(key), LISTS)), ("", []))


def _conversations(
    messages_of: Callable[[object], tuple[str, Sequence[object]]],
    turn: Callable[[str, Any, Position], ChatTurn | str],
) -> _Reader:
    """Return a reader of objects with lists of messages, each a conversation, or of messages that are one together.

    Args:
        messages_of: returns the key of an object's list, and the list; an empty key for a message.
        turn: returns the turn of a message for the name of its conversation, or why it is none.
    """

    def read(lines: Iterable[Line]) -> Iterator[MemoryItem]:
        seen: Counter[str] = Counter()
        single: list[Line] = []

        def read_one(raw: object, origin: Position) -> Iterator[MemoryItem]:
            key, messages = messages_of(raw)
            if not key or not isinstance(raw, Mapping):
                single.append((raw, origin))
                return
            # Equal conversations of a file are separate ones.
            own = raw.get("id") or raw.get("conversation_id")
            name = str(own or unique_id(digest(list(islice(messages, _NAMING))), seen)[:12])
            yield from turn_items(numbered(messages, origin.at(f".{key}")), partial(turn, name))

        yield from read_each(lines, read_one)
        name = digest([raw for raw, _ in single])[:12]
        yield from turn_items(single, partial(turn, name))

    return read


def _openai_turn(name: str, raw: object, origin: Position) -> ChatTurn | str:
    form = f"a message with one of the roles {', '.join(_OPENAI_ROLES)}"
    raw = shaped(raw, lambda message: message.get("role") in _OPENAI_ROLES, form, origin)
    speaker, key = speaker_of(raw["role"]), time_key(raw)
    if speaker is None:
        return NOT_SAID
    return ChatTurn(
        text=text_of_content(raw.get("content"), origin),
        speaker=speaker,
        time=origin.event_time(key, raw[key]) if key else None,
        conversation=name,
        metadata={"name": raw.get("name")},
    )


def _sharegpt_turn(name: str, raw: object, origin: Position) -> ChatTurn | str:
    raw = shaped(raw, _is_sharegpt_turn, "a conversation whose turns have `from` and `value`", origin)
    if (speaker := speaker_of(raw["from"])) is None:
        return NOT_SAID
    return ChatTurn(text=text_of_content(raw["value"], origin), speaker=speaker, conversation=name)


def _langchain_turn(name: str, raw: object, origin: Position) -> ChatTurn | str:
    if (plain := _langchain_message(raw)) is None:
        raise origin.error("expected a message of LangChain, or an object with `messages`")
    kind, fields = plain
    speaker = speaker_of(fields.get("role") if kind == "chat" else kind)
    if speaker is None:
        return NOT_SAID
    own = fields.get("id")
    return ChatTurn(
        text=text_of_content(fields.get("content"), origin),
        speaker=speaker,
        id=own if isinstance(own, str) and len(own) >= _ID_LENGTH else None,
        conversation=name,
        metadata={"name": fields.get("name")},
    )


def _langchain_message(raw: object) -> tuple[str, Mapping[str, Any]] | None:
    """Return kind and fields of a message: of `messages_to_dict`, `dumpd` or `model_dump`; None for anything else."""
    if not isinstance(raw, Mapping):
        return None
    path, fields = raw.get("id"), raw.get("kwargs")
    if raw.get("lc") is not None and isinstance(path, list) and path and isinstance(fields, Mapping):
        kind = str(path[-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return (kind, fields) if kind in _LANGCHAIN_TYPES else None
    named = raw.get("type")
    if named not in _LANGCHAIN_TYPES:
        return None
    if isinstance(raw.get("data"), Mapping):
        return str(named), raw["data"]
    return (str(named), raw) if "content" in raw and "role" not in raw else None


read_openai: Final = _conversations(partial(_first_list, keys=("messages",)), _openai_turn)
read_sharegpt: Final = _conversations(partial(_first_list, keys=_LISTS), _sharegpt_turn)
read_langchain: Final = _conversations(_langchain_state, _langchain_turn)


def _list_at(raw: object, key: str) -> Sequence[object]:
    return _first_list(raw, (key,))[1]


_SAID: Final = ("text", "multimodal_text")
"""Types of contents that were said; others are thoughts, code for tools, and what tools returned."""


def is_chatgpt(raw: object) -> bool:
    """Whether an object is a conversation of ChatGPT's export."""
    return isinstance(raw, Mapping) and isinstance(raw.get("mapping"), Mapping) and "title" in raw


def chatgpt_items(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each message of the branch that is shown."""
    chat = shaped(raw, is_chatgpt, "a conversation with `title` and `mapping`", origin)
    name = str(chat.get("conversation_id") or chat.get("id") or origin.entry)

    def turn(message: Mapping[str, Any], here: Position) -> ChatTurn | str:
        content, about, author = message.get("content"), message.get("metadata"), message.get("author")
        is_hidden = isinstance(about, Mapping) and about.get("is_visually_hidden_from_conversation")
        kind = content.get("content_type") if isinstance(content, Mapping) else None
        speaker = speaker_of(author.get("role")) if isinstance(author, Mapping) else None
        if kind not in _SAID or is_hidden or message.get("recipient", "all") != "all" or speaker is None:
            return NOT_SAID
        return ChatTurn(
            text=text_of_content(content, here),
            speaker=speaker,
            id=message.get("id"),
            time=here.event_time("create_time", message.get("create_time") or None),
            conversation=name,
            metadata={"title": chat["title"]},
        )

    branch = _shown_branch(chat["mapping"], chat.get("current_node"), "parent", origin.at(".mapping"))
    messages = ((node["message"], here) for node, here in branch if isinstance(node.get("message"), Mapping))
    yield from turn_items(messages, turn)


def _shown_branch(nodes: Mapping[str, Any], last: object, parent: str, origin: Position) -> _Nodes:
    """Return the nodes of a tree from the first message to the one that is shown last.

    Args:
        nodes: by their keys.
        last: key of the last one; where there is none of this key, the newest one is taken.
        parent: key under which a node has the key of the one above it.
        origin: position of the tree.

    Raises:
        DataFileError: the branch does not lead to a first message.
    """
    nodes = {key: node for key, node in nodes.items() if isinstance(node, Mapping)}
    if last not in nodes:
        above = {node.get(parent) for node in nodes.values()}
        last = max((key for key in nodes if key not in above), key=lambda key: _time(nodes[key]), default=None)
    branch: _Nodes = []
    while last is not None:
        if not isinstance(last, str) or last not in nodes or len(branch) > len(nodes):
            raise origin.error(f"{last!r} has no place in the tree of messages")
        branch.append((nodes[last], origin.at(f"[{last!r}]")))
        last = nodes[last].get(parent)
    origin.leave("answers that were replaced by others, with what followed them", len(nodes) - len(branch))
    return branch[::-1]


def _time(node: Mapping[str, Any]) -> float:
    message = node.get("message", node)
    time = message.get("create_time", message.get("timestamp")) if isinstance(message, Mapping) else None
    return float(time) if isinstance(time, int | float) else 0.0


def is_open_webui(raw: object) -> bool:
    """Whether an object is a chat of Open WebUI's export."""
    history = raw["chat"].get("history") if isinstance(raw, Mapping) and isinstance(raw.get("chat"), Mapping) else None
    return isinstance(history, Mapping) and isinstance(history.get("messages"), Mapping)


def open_webui_items(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each message of the branch that is shown."""
    whole = shaped(raw, is_open_webui, "a chat with `history` and its `messages`", origin)
    chat = whole["chat"]
    title, name = whole.get("title") or chat.get("title"), str(whole.get("id") or chat.get("id") or origin.entry)

    def turn(message: Mapping[str, Any], here: Position) -> ChatTurn | str:
        if (speaker := speaker_of(message.get("role"))) is None:
            return NOT_SAID
        files = [one.get("name") for one in message.get("files") or () if isinstance(one, Mapping)]
        said = _THOUGHTS.sub("", text_of_content(message.get("content"), here))
        return ChatTurn(
            text=with_files(said.strip(), files),
            speaker=speaker,
            id=message.get("id"),
            time=here.event_time("timestamp", message.get("timestamp")),
            conversation=name,
            metadata={"title": title},
        )

    history = chat["history"]
    branch = _shown_branch(history["messages"], history.get("currentId"), "parentId", origin.at(".chat.history"))
    yield from turn_items(branch, turn)


_THOUGHTS: Final = re.compile(r"<details type=\"(?:reasoning|tool_calls|code_interpreter)\".*?</details>", re.DOTALL)


def is_claude(raw: object) -> bool:
    """Whether an object is a conversation of Claude's export."""
    return isinstance(raw, Mapping) and isinstance(raw.get("chat_messages"), list)


def claude_items(raw: object, origin: Position) -> Iterator[MemoryItem]:
    """Yield an item for each message."""
    chat = shaped(raw, is_claude, "an object with a list `chat_messages`", origin)

    def turn(message: Mapping[str, Any], here: Position) -> ChatTurn | str:
        if (speaker := speaker_of(message.get("sender"))) is None:
            raise here.error(f"'sender': expected 'human' or 'assistant', found {message.get('sender')!r}")
        said = text_of_content(message.get("content"), here) or text_of_content(message.get("text"), here)
        files = [one for key in ("attachments", "files") for one in message.get(key) or () if isinstance(one, Mapping)]
        return ChatTurn(
            text=with_files(said, [one.get("file_name") for one in files]),
            speaker=speaker,
            id=message.get("uuid"),
            time=here.event_time("created_at", message.get("created_at")),
            conversation=str(chat.get("uuid") or origin.entry),
            metadata={"title": chat.get("name")},
        )

    yield from turn_items(numbered(chat["chat_messages"], origin.at(".chat_messages")), turn)


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
_TS: Final = re.compile(r"\d{9,11}\.\d+")
_SLACK_SAID: Final = (None, "bot_message", "me_message", "thread_broadcast", "file_share", "reply_broadcast")
"""Subtypes of what somebody said; others are notices, as of who joined."""
_MARKUP: Final = re.compile(r"<([@#!]?)([^>|]+)(?:\|([^>]*))?>")


def is_slack(raw: object) -> bool:
    """Whether an object is a message of Slack."""
    return isinstance(raw, Mapping) and isinstance(raw.get("ts"), str) and bool(_TS.fullmatch(raw["ts"]))


def read_slack(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message of a day that has a text.

    The folder of the file is the channel, which is the conversation; a thread is the session. Beside the folders
    `users.json` has the names of the users.
    """
    messages = list(lines)
    origin = next((origin for _, origin in messages), Position(path=Path()))
    channel = origin.path.parent.name if _DAY.fullmatch(origin.path.name) else None
    users = (origin.file or origin.path).parent.parent / "users.json"
    document = FileReader(users).document() if users.is_file() else None
    names: dict[str, str] = {}
    for raw in chain(document if isinstance(document, list) else (), (raw for raw, _ in messages)):
        profile = raw.get("profile", raw.get("user_profile")) if isinstance(raw, Mapping) else None
        if isinstance(raw, Mapping) and isinstance(profile, Mapping):
            given = (at.get(key) for at in (profile, raw) for key in ("display_name", "real_name", "name"))
            if (user := raw.get("id") or raw.get("user")) and (name := next(filter(None, given), None)):
                names[str(user)] = str(name)
    yield from turn_items(messages, partial(_slack_turn, names, channel))


def _slack_turn(names: Mapping[str, str], channel: str | None, raw: object, origin: Position) -> ChatTurn | str:
    raw = shaped(raw, is_slack, "a message with `ts`", origin)
    if raw.get("subtype") not in _SLACK_SAID:
        return "notices of the program"
    user = str(raw.get("user") or raw.get("bot_id") or "")
    return ChatTurn(
        text=_slack_text(raw, names),
        speaker=names.get(user) or str(raw.get("username") or user),
        id=digest(channel, raw["ts"], user, raw.get("text")),
        time=float(raw["ts"]),
        conversation=channel,
        session=raw.get("thread_ts"),
    )


def _slack_text(raw: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return what was said, without Slack's markup; files are named."""

    def plain(text: object) -> str:
        def replacement(match: re.Match[str]) -> str:
            kind, target, label = match.groups()
            if kind == "@":
                return f"@{label or names.get(target, target)}"
            return f"{'#' if kind == '#' else ''}{label or target}"

        return html.unescape(_MARKUP.sub(replacement, str(text)))

    def block_text(block: object) -> str:
        """Return the words of a block: of its parts, one below another, but those of a section in one line."""
        if not isinstance(block, Mapping):
            return ""
        kind, text = block.get("type"), block.get("text")
        if kind in ("user", "channel"):
            target = str(block.get(f"{kind}_id"))
            return f"@{names.get(target, target)}" if kind == "user" else f"#{target}"
        own = block_text(text) if isinstance(text, Mapping) else text or block.get("url") or ""
        if kind == "emoji":
            own = f":{block.get('name')}:"
        inner = [*_list_at(block, "fields"), *_list_at(block, "elements")]
        apart = "" if kind == "rich_text_section" else "\n"
        return apart.join(filter(None, [plain(own) if kind == "mrkdwn" else str(own), *map(block_text, inner)]))

    attached = [one for one in _list_at(raw, "attachments") if isinstance(one, Mapping)]
    shown = [plain(one.get("text") or one.get("fallback") or "") for one in attached]
    blocks = list(map(block_text, _list_at(raw, "blocks")))
    said = plain(raw.get("text") or "") or "\n".join(filter(None, blocks or shown))
    files = [one.get("name") for one in _list_at(raw, "files") if isinstance(one, Mapping)]
    return with_files(said, files)
