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
    """Remove the lines of all frames; the rest is unchanged."""
    return _FRAME.sub("", text).strip() if "===" in text else text


def split_turns(text: str) -> list[str]:
    """Return what each sender said, in order, without the frames; a text without frames is one turn."""
    return [said for _, _, said in framed_turns(text)]


def framed_turns(text: str) -> list[tuple[str, str, str]]:
    """Return sender, role and text of every turn that is not blank, in order.

    The sender is empty where no frame names one; what stands before the first frame is a user's.
    """
    frames = list(_FRAME.finditer(text)) if "===" in text else []
    starts = [0, *(each.end() for each in frames)]
    ends = [*(each.start() for each in frames), len(text)]
    said = (
        (*_sender_of(each), text[start:end].strip())
        for each, start, end in zip([None, *frames], starts, ends, strict=True)
    )
    return [turn for turn in said if turn[2]]


def last_sender(text: str) -> tuple[str, str]:
    """Return name and role in the last frame; empty where there is no frame, and no name where it has none."""
    frames = list(_FRAME.finditer(text)) if "===" in text else []
    return _sender_of(frames[-1]) if frames else ("", "")


def _sender_of(framed: re.Match[str] | None) -> tuple[str, str]:
    found = _SENDER.search(framed[0]) if framed else None
    if found is None:
        return "", "user"
    return ("" if found[1] == _UNNAMED else found[1]), found[2]
