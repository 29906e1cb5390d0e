"""Keeping the passwords of URLs, and the texts of a memory, out of messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_USERINFO: Final = re.compile(
    # What PostgreSQL's driver would read as user and password, also where one of them has a character that belongs
    # %-encoded: up to the last @ before the parameters.
    # No token is longer than 4,000 characters, and a message may quote any text.
    r"(?P<database>postgres(?:ql)?(?:\+\w{1,20})?:/{0,2})(?:[^?\s]|\?(?!\w{1,60}=)){0,4000}@"
    # Elsewhere a slash ends the host, unless what looks like a port is none.
    r"|(?P<any>://)(?:[^/?#\s]{0,4000}|[^/?#\s:@]{0,400}:(?!\d{0,9}(?:[/?#\s]|$))[^\s?]{0,4000})@",
    re.IGNORECASE,
)
_PARAMETER: Final = re.compile(
    r"((?:^|[?&\s]|%3F|%26)\w{0,60}(?:pas{1,9}wo?r?d|pwd|secret)\w{0,60}=)(?:(?!%26)[^&\s])+", re.IGNORECASE
)
_IN_LOCATION: Final = re.compile(r"\A([\w.+-]+:/{1,2})(?:[^?]|\?(?!\w+=))*@")


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it masked, also a password among its parameters."""
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(_masked, text) if "@" in text else text)


def location_without_credentials(location: str) -> str:
    """Return a path or a URL with user and password masked, whatever characters they have."""
    return without_credentials(_IN_LOCATION.sub(r"\1***@", location))


def _masked(found: re.Match[str]) -> str:
    return f"{found['database'] or found['any']}***@"


_ESCAPED: Final = re.compile(r"\\u([0-9a-fA-F]{4})")
_WINDOW: Final = 16
"""Letters and digits that a service's words and a text have in common where the words repeat the text."""
_LEAST: Final = 6
"""Letters and digits of the shortest text that is looked for."""


def without_repeated(said: str, texts: Iterable[str]) -> str:
    """Return a service's words, or a note in their place where they repeat a part of what it was sent.

    Some services answer a request that they refuse with the request itself; their words go to logs, which hold no
    contents of a memory.

    Args:
        said: the service's words.
        texts: what it was sent.
    """
    unescaped = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), said).replace("\\n", " ")
    # JSON escapes a character beyond U+FFFF as two, which are one again.
    plain = _letters(unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    if any(_repeats(plain, _letters(text)) for text in texts):
        return "(the service's words are left out, as they repeat what it was sent)"
    return said


def _repeats(plain: str, text: str) -> bool:
    if len(text) <= _WINDOW:
        return len(text) >= _LEAST and text in plain
    # Any part of twice the window's length holds one of these windows.
    return any(text[at : at + _WINDOW] in plain for at in range(0, len(text) - _WINDOW + 1, _WINDOW))


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())
