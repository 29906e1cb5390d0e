"""The commands of every worker, `write FOLDER PREFIX COUNT` and `dump FOLDER`: a line for each token."""

from __future__ import annotations

import hashlib
import re
import struct
import sys
from collections.abc import Callable, Iterable

DIMENSION = 16
_TOKEN = re.compile(r"\bw\d+x\d+\b")


def vector_of(text: str) -> list[float]:
    """Return a vector that is the same for the same text."""
    raw = hashlib.shake_256(text.encode()).digest(4 * DIMENSION)
    return [value / 2**31 - 1 for value in struct.unpack(f"<{DIMENSION}I", raw)]


def text_of(token: str) -> str:
    """Return the text that is stored for a token."""
    return f"The answer for this number is {token} and nothing else."


def main(opened: Callable[[str], tuple[Callable[[str, str], object], Callable[[], Iterable[str]]]]) -> None:
    """Run the command; `opened` opens the store of a folder and returns its `add(id, text)` and its `texts()`."""
    command, folder, *more = sys.argv[1:]
    add, texts = opened(folder)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if command == "write":
        prefix, count = more[0], int(more[1])
        for number in range(count):
            token = f"{prefix}{number}"
            add(token, text_of(token))
            sys.stdout.write(f"{token}\n")
            sys.stdout.flush()
        return
    for text in texts():
        for token in _TOKEN.findall(text):
            # The whole text, so that an altered one is seen.
            sys.stdout.write(f"{token} {'same' if text == text_of(token) else 'altered'}\n")
