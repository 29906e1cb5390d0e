"""The page's own words in English, and in Chinese by `zh.json`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Literal

Language = Literal["en", "zh"]


@cache
def _chinese() -> dict[str, str]:
    words: dict[str, str] = json.loads((Path(__file__).parent / "zh.json").read_text(encoding="utf-8"))
    return words


def language_of(wanted: str) -> Language:
    """Return the page's language for `zh`, `en`, or a browser's list of languages."""
    first = wanted.split(",")[0].strip().casefold()
    return "zh" if first.startswith("zh") else "en"


def translated(text: str, language: Language) -> str:
    """Return one of the page's own texts in a language; in English where it has no other."""
    return _chinese().get(text, text) if language == "zh" else text
