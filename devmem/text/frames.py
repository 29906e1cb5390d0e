"""The frames that DevAll (ChatDev 2) puts around a node's inputs: `=== INPUT FROM name (role) ===`, then the text."""

from __future__ import annotations

import re
from typing import Final

_FRAME: Final = re.compile(
    r"^[ \t]*===[ \t]*INPUT FROM[ \t]+(?=\S)[^\n]+?(?<=\S)[ \t]*\(\w+\)[ \t]*===[ \t]*$\n*", re.MULTILINE
)


def frame(source: str, role: str, text: str) -> str:
    """Put a frame around what one sender said."""
    return f"=== INPUT FROM {source or 'UNKNOWN'} ({role}) ===\n\n{text}"


def strip_frames(text: str) -> str:
    """Take every frame's line away; what was said stays as it is."""
    return _FRAME.sub("", text).strip() if "===" in text else text


def last_turn(text: str) -> str:
    """Give what the last sender said, without its frame; a text without frames is one turn."""
    turns = [turn for turn in _FRAME.split(text) if turn.strip()] if "===" in text else [text]
    return turns[-1].strip() if turns else ""
