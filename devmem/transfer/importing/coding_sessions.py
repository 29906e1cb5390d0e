"""Sessions of coding agents, JSON lines: Claude Code's (`~/.claude/projects`) and Codex's (`~/.codex/sessions`).

What the user and the agent said is read; prompts, thoughts, calls of tools and their results are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.chats import NOT_SAID
from devmem.transfer.importing.records import ChatTurn, Line, Position, shaped, speaker_of, text_of_content, turn_items

_OF_CLAUDE_CODE: Final = frozenset({"uuid", "sessionId", "message"})
_OF_CODEX: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_TAGS: Final = (
    r"command-name|command-message|command-args|local-command-stdout|local-command-stderr|system-reminder"
    r"|environment_context|user_instructions"
)
_PUT_IN: Final = re.compile(
    rf"\A(?:\s*<(?P<tag>{_TAGS})\b[^>]*>.*?</(?P=tag)>)+"
    r"|\A\s*(?:# AGENTS\.md instructions|Caveat: The messages below).*"
    r"|<system-reminder>(?:(?!<system-reminder>).)*</system-reminder>\s*\Z",
    re.DOTALL,
)
"""Texts that the programs themselves put into the user's place, before or after what was typed."""


def is_claude_code(raw: object) -> bool:
    """Whether an object is a message of Claude Code."""
    return isinstance(raw, Mapping) and raw.keys() >= _OF_CLAUDE_CODE and raw.get("type") in ("user", "assistant")


def is_codex(raw: object) -> bool:
    """Whether an object is an entry of Codex."""
    return isinstance(raw, Mapping) and raw.get("type") in _OF_CODEX and isinstance(raw.get("payload"), Mapping)


def _own_words(speaker: str | None, content: object, origin: Position) -> str:
    """Return what the speaker said; empty where the program said it."""
    text = "" if speaker is None else text_of_content(content, origin)
    return _PUT_IN.sub("", text).strip() if speaker == "user" else text


def read_claude_code(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text, and one for each summary; those of subagents are left out."""
    return turn_items(lines, _claude_code_turn)


def _claude_code_turn(raw: Mapping[str, Any], origin: Position) -> ChatTurn | str:
    if raw.get("type") == "summary" and isinstance(raw.get("summary"), str):
        about = {"kind": "summary", "summary_of": str(raw.get("leafUuid") or "")}
        return ChatTurn(text=raw["summary"], speaker="", metadata=about)
    if not is_claude_code(raw) or raw.get("isMeta") or raw.get("isSidechain"):
        return "notes of the program, and messages of subagents"
    message = raw["message"]
    speaker = speaker_of(message.get("role"))
    is_summary = bool(raw.get("isCompactSummary"))
    if not (text := _own_words(speaker, message.get("content"), origin)):
        return NOT_SAID
    return ChatTurn(
        text=text,
        # The program writes a summary in the user's place.
        speaker="" if is_summary else str(speaker),
        id=str(raw["uuid"]),
        time=origin.event_time("timestamp", raw.get("timestamp")),
        conversation=str(raw["sessionId"]),
        metadata={"folder": raw.get("cwd"), "kind": "summary" if is_summary else ""},
    )


def read_codex(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text."""
    session: str | None = None
    folder: object = None

    def turn(raw: object, origin: Position) -> ChatTurn | str:
        nonlocal session, folder
        form = "an entry with `type` and `payload`"
        raw = shaped(raw, lambda entry: isinstance(entry.get("payload"), Mapping), form, origin)
        payload = raw["payload"]
        if raw.get("type") == "session_meta":
            session = str(payload["id"]) if payload.get("id") else session
            folder = payload.get("cwd")
        if raw.get("type") != "response_item" or payload.get("type") != "message":
            return NOT_SAID
        speaker = speaker_of(payload.get("role"))
        if not (text := _own_words(speaker, payload.get("content"), origin)):
            return NOT_SAID
        return ChatTurn(
            text=text,
            speaker=str(speaker),
            time=origin.event_time("timestamp", raw.get("timestamp")),
            conversation=session,
            metadata={"folder": folder},
        )

    return turn_items(lines, turn)
