"""Stored text as it may be shown: nothing in it steers a terminal or breaks a line."""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    """Give the text with control characters made visible, so that what is stored cannot steer the terminal."""
    return "".join(
        char if char in "\n\t" or unicodedata.category(char) != "Cc" else repr(char)[1:-1]
        for char in text.replace("\r\n", "\n")
    )


def one_line(text: str) -> str:
    """Give the text on one line."""
    return " ".join(visible(text).split())


def well_formed(text: str) -> str:
    """Give the text with a replacement character for every half of a surrogate pair, so that UTF-8 can hold it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
