"""Sessions of coding agents, JSON lines: Claude Code's (`~/.claude/projects`) and Codex's (`~/.codex/sessions`).

What the user and the agent said is read; prompts, thoughts, calls of tools and their results are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.records import Origin, Turn, speaker_of, text_of_content, turn_items

Line = tuple[object, Origin]
_OF_CLAUDE_CODE: Final = frozenset({"uuid", "sessionId", "message"})
_OF_CODEX: Final = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_NOT_TYPED: Final = re.compile(
    r"\s*(?:<(?:command-name|command-message|local-command-stdout|system-reminder|environment_context|user_instructions)\b"
    r"|# AGENTS\.md instructions|Caveat: The messages below)"
)
"""Beginnings of texts that the programs themselves put into the user's place."""


def is_claude_code(raw: object) -> bool:
    """Whether a line is a message of Claude Code."""
    return isinstance(raw, Mapping) and raw.keys() >= _OF_CLAUDE_CODE and raw.get("type") in ("user", "assistant")


def is_codex(raw: object) -> bool:
    """Whether a line is an entry of Codex."""
    return isinstance(raw, Mapping) and raw.get("type") in _OF_CODEX and isinstance(raw.get("payload"), Mapping)


def read_claude_code(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text, and one for each summary; those of subagents are left out.

    Raises:
        DataFileError: a line is not as Claude Code writes it.
    """
    yield from turn_items(turn for raw, origin in lines for turn in _claude_code_turns(raw, origin))


def _claude_code_turns(raw: object, origin: Origin) -> Iterator[Turn]:
    if not isinstance(raw, Mapping):
        raise origin.error(f"expected an object, found {type(raw).__name__}")
    if raw.get("type") == "summary" and isinstance(raw.get("summary"), str):
        name = str(raw.get("leafUuid") or "") or None
        yield Turn(text=raw["summary"], speaker="", origin=origin, session=None, metadata={"summary_of": name})
        return
    if not is_claude_code(raw) or raw.get("isMeta") or raw.get("isSidechain"):
        return
    message = raw["message"]
    if not isinstance(message, Mapping):
        raise origin.error(f"'message': expected an object, found {type(message).__name__}")
    speaker = speaker_of(message.get("role"))
    text = text_of_content(message.get("content"), origin)
    if speaker is None or _NOT_TYPED.match(text):
        return
    folder = {"folder": raw["cwd"]} if raw.get("cwd") else {}
    summary = {"kind": "summary"} if raw.get("isCompactSummary") else {}
    yield Turn(
        text=text,
        speaker=speaker,
        origin=origin,
        id=str(raw["uuid"]),
        time=origin.event_time("timestamp", raw.get("timestamp")),
        conversation=str(raw["sessionId"]),
        metadata={**folder, **summary},
    )


def read_codex(lines: Iterable[Line]) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text.

    Raises:
        DataFileError: a line is not as Codex writes it.
    """
    yield from turn_items(_codex_turns(lines))


def _codex_turns(lines: Iterable[Line]) -> Iterator[Turn]:
    session: str | None = None
    folder: dict[str, Any] = {}
    for raw, origin in lines:
        payload = raw.get("payload") if isinstance(raw, Mapping) else None
        if not isinstance(raw, Mapping) or not isinstance(payload, Mapping):
            raise origin.error("expected an entry with `type` and `payload`")
        if raw.get("type") == "session_meta":
            session = str(payload["id"]) if payload.get("id") else session
            folder = {"folder": payload["cwd"]} if payload.get("cwd") else {}
        if raw.get("type") != "response_item" or payload.get("type") != "message":
            continue
        speaker, text = speaker_of(payload.get("role")), text_of_content(payload.get("content"), origin)
        if speaker is None or _NOT_TYPED.match(text):
            continue
        yield Turn(
            text=text,
            speaker=speaker,
            origin=origin,
            time=origin.event_time("timestamp", raw.get("timestamp")),
            conversation=session,
            metadata=folder,
        )
