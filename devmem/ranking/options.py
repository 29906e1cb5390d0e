"""How hits are ranked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DAY: Final = 86_400.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What counts in a hit's score beside the words and the meaning it shares with the query."""

    late_interaction: bool = True
    """Look at the best candidates again, token by token, where the model gave token vectors."""
    context: bool = True
    """The turns before and after, the conversation, and who speaks lend their score."""
    time: Literal["boost", "narrow", "off"] = "boost"
    """What a time in the query ("last week", "in May 2023") does: items of that time gain, or nothing else is found."""
    recency: float = 0.02
    """What an item of right now gains over an old one; a token-by-token match scores from about 0.2 to 0.7."""
    half_life: float = 30 * DAY
    """Seconds after which half of that gain is left."""
    importance: float = 0.0
    """What an item whose metadata say `importance: 1` gains over one of 0."""
    diversity: float = 0.0
    """From 0, by score alone, to 1, away from what was chosen already (maximal marginal relevance)."""
    collapse: bool = True
    """Of hits that say the same on the same day only the best is given."""
    depth: int = 200
    """So many of the best candidates are looked at again."""
