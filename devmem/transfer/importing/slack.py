"""Slack's export of a channel: a list of messages with `ts`, one file a day in the channel's folder."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from devmem.model.items import MemoryItem
from devmem.transfer.importing.origin import Origin
from devmem.transfer.importing.turns import Turn, digest, turn_items

_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d\.json")
_TS: Final = re.compile(r"\d{9,11}\.\d+")
_SAID: Final = (None, "bot_message", "me_message", "thread_broadcast", "file_share", "reply_broadcast")
"""Subtypes of what somebody said; others are notices, as of who joined."""
_MARKUP: Final = re.compile(r"<([@#!]?)([^>|]+)(?:\|([^>]*))?>")


def is_slack(raw: object) -> bool:
    """Whether an element of a document is a message of Slack."""
    return isinstance(raw, Mapping) and isinstance(raw.get("ts"), str) and bool(_TS.fullmatch(raw["ts"]))


def read_slack(messages: list[object], origin: Origin) -> Iterator[MemoryItem]:
    """Yield an item for each message with a text; the channel is the conversation, a thread the session.

    Raises:
        DataFileError: something is not as Slack exports it.
    """
    channel = origin.path.parent.name if _DAY.fullmatch(origin.path.name) else None
    names = _names(messages)
    yield from turn_items(_turns(messages, names, channel or None, origin))


def _turns(messages: list[object], names: Mapping[str, str], channel: str | None, origin: Origin) -> Iterator[Turn]:
    for at, raw in enumerate(messages):
        here = replace(origin, entry=f"[{at}]")
        if not isinstance(raw, Mapping) or not is_slack(raw):
            raise here.error("expected a message with `ts`")
        if raw.get("subtype") not in _SAID:
            continue
        user = str(raw.get("user") or raw.get("bot_id") or "")
        yield Turn(
            text=_text(raw, names),
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


def _text(raw: Mapping[str, Any], names: Mapping[str, str]) -> str:
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
