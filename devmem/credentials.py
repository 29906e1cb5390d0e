"""Keeping the passwords of URLs out of messages."""

from __future__ import annotations

import re


def without_credentials(text: str) -> str:
    """Return the text with the user and password of every URL in it masked."""
    return re.sub(r"(://)[^/?#@\s]+@", r"\1***@", text) if "://" in text else text
