"""Options of the ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

DAY: Final = 86_400.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Which features count in a hit's score, beside the words and the meaning it shares with the query."""

    late_interaction: bool = True
    """Compare the best candidates token by token, where the model makes token vectors."""
    context: bool = True
    """Whether the turns before and after, the conversation and the speaker count."""
    time: Literal["boost", "narrow", "off"] = "boost"
    """Effect of a time in the query ("last week", "in May 2023"): items of that time gain, or nothing else is found."""
    recency: float = 0.02
    """Score contribution of recency for a new item; late interaction scores from about 0.2 to 0.7."""
    half_life: float = 30 * DAY
    """Seconds after which half of that contribution is left."""
    importance: float = 0.0
    """Score contribution of the metadata `importance: 1`."""
    diversity: float = 0.0
    """From 0, by score alone, to 1, by difference from the hits chosen so far (maximal marginal relevance)."""
    collapse: bool = True
    """Of hits that say the same on the same day only the best is returned."""
    depth: int = 200
    """Maximum number of candidates that are compared token by token."""
