"""Keeping the passwords of URLs out of messages."""

from __future__ import annotations

import re
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
_PARAMETER: Final = re.compile(r"((?:^|[?&\s])\w{0,60}(?:pas{1,9}wo?r?d|pwd|secret)\w{0,60}=)[^&\s]+", re.IGNORECASE)
_IN_LOCATION: Final = re.compile(r"\A([\w.+-]+:/{1,2})(?:[^?]|\?(?!\w+=))*@")


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it masked, also a password among its parameters."""
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(_masked, text) if "@" in text else text)


def location_without_credentials(location: str) -> str:
    """Return a path or a URL with user and password masked, whatever characters they have."""
    return without_credentials(_IN_LOCATION.sub(r"\1***@", location))


def _masked(found: re.Match[str]) -> str:
    return f"{found['database'] or found['any']}***@"
