"""The frames that DevAll (ChatDev 2) puts around a node's inputs: `=== INPUT FROM name (role) ===`, then the text."""

from __future__ import annotations

import re
from typing import Final

from devmem.text.patterns import lazy_pattern

_FRAME: Final = lazy_pattern(
    r"^[ \t]*===[ \t]*INPUT FROM[ \t]+(?=\S)[^\n]+?(?<=\S)[ \t]*\(\w+\)[ \t]*===[ \t]*$\n*", re.MULTILINE
)
_SENDER: Final = lazy_pattern(r"INPUT FROM[ \t]+(.+?)[ \t]*\((\w+)\)[ \t]*===[ \t]*$", re.MULTILINE)
_UNNAMED: Final = "UNKNOWN"


def frame(source: str, role: str, text: str) -> str:
    """Put a frame around what one sender said."""
    return f"=== INPUT FROM {source or _UNNAMED} ({role}) ===\n\n{text}"


def strip_frames(text: str) -> str:
    """Take every frame's line away; what was said stays as it is."""
    return _FRAME.sub("", text).strip() if "===" in text else text


def split_turns(text: str) -> list[str]:
    """Return what each sender said, in order, without the frames; a text without frames is one turn."""
    turns = _FRAME.split(text) if "===" in text else [text]
    return [turn.strip() for turn in turns if turn.strip()]


def senders(text: str) -> list[str]:
    """Name whom the frames name, in order, each once."""
    frames = _FRAME.finditer(text) if "===" in text else ()
    named = [found[1] for each in frames if (found := _SENDER.search(each[0]))]
    return list(dict.fromkeys(name for name in named if name != _UNNAMED))


def last_sender(text: str) -> tuple[str, str]:
    """Return name and role in the last frame; empty where there is no frame, and no name where it has none."""
    frames = [each[0] for each in _FRAME.finditer(text)] if "===" in text else []
    found = _SENDER.search(frames[-1]) if frames else None
    return ("" if found[1] == _UNNAMED else found[1], found[2]) if found else ("", "")
