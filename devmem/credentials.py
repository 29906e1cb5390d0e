"""Keeping the passwords of URLs out of messages."""

from __future__ import annotations

import re


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it masked, also a password among its parameters."""
    if "://" in text:
        text = re.sub(r"(://)[^/?#\s]*@", r"\1***@", text)
    if "password=" in text.lower():
        text = re.sub(r"(?i)((?:^|[?&\s])(?:ssl)?password=)[^&#\s]+", r"\1***", text)
    return text
