"""Surface cues of a text: whether it only asks or reacts, what it holds, and what it says to keep in mind.

Whoever changes how a cue is recognised raises `ANALYSIS_VERSION`, so that stored items get their cues again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntFlag
from typing import Final

from devmem.text.patterns import lazy_pattern


class Cue(IntFlag):
    """Cues of an item's text; recorded with the item."""

    NONE = 0
    ASKS = 1
    """It ends in a question."""
    TELLS_WHEN = 2
    """It holds an expression of time: `yesterday`, `last week`, `in May`, a year, a date."""
    INSTRUCTS = 4
    """It says what is to be done from now on: `always show types`, `whenever I ask`."""
    PREFERS = 8
    """It says what somebody would rather have: `I prefer`, `I'd rather`."""
    ADDRESSES = 16
    """It speaks to somebody and not of its speaker: `you`, `your`, without `I`, `my` or `we`."""
    NAMES = 32
    """It holds a name: a capitalised word within a sentence, or a title."""
    NUMBERS = 64
    """It holds a number, in digits or in words."""
    REACTS = 128
    """It begins by reacting to another text: `Wow`, `Thanks`, `That sounds great`."""


_MONTHS: Final = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_DIGITS: Final = tuple("0123456789")
_TELLS_WHEN: Final = lazy_pattern(
    rf"""\b(?:yesterday|today|tonight|tomorrow|recently
    |(?:last|next|this)\s(?:night|morning|evening|week|weekend|month|year|spring|summer|fall|autumn|winter|{_DAYS})
    |(?:day|week|weekend|month|year)s?\sago
    |(?:since|in|for)\s\d+\b
    |(?:19|20)\d\d
    |{_DAYS}
    |(?!may\b)(?:{_MONTHS})
    |(?:in|last|next|since|of|until)\smay|may\s\d)\b
    |\d\s*[年月日号]|昨[天晚日]|前天|今[天晚早]|明[天晚早]|[上下本这]个?(?:周|星期|礼拜|月|季度)|[去今明前]年|(?:周|星期|礼拜)[一二三四五六日天]
    |[几\d一二三四五六七八九十两]个?(?:天|周|月|年|小时)[以之]?前|小时候|刚才|最近
    """,
    re.IGNORECASE | re.VERBOSE,
)
_ASKS_WHEN: Final = lazy_pattern(
    r"^\W*(?:when|since when|how long|what\s(?:date|day|month|year|time)|which\s(?:date|day|month|year|week))\b"
    r"|\b(?:in|on|at)\s(?:what|which)\s(?:date|day|month|year|week)\b"
    r"|什么时候|何时|哪一?[天年月日]|几[月号点]|多久|多長時間|多长时间",
    re.IGNORECASE,
)
_INSTRUCTS: Final = lazy_pattern(
    r"(?:(?:^|[.!?:,;]\s+|\n)(?:please\s+)?(?:always|never|from\snow\son|in\s(?:the\s)?future|going\sforward|don['’]t\sever)"
    r"|\b(?:when(?:ever)?|every\stime)\si\sask)\b"
    r"|以后(?:都|请)|从现在起|请(?:总是|始终|一律|务必)|每次都?请|永远(?:不要|别)",
    re.IGNORECASE,
)
_PREFERS: Final = lazy_pattern(
    r"\bi(?:['’]d|\swould|\sreally|\sgenerally|\susually|\salways)?\s+(?:strongly\s+)?(?:prefer|rather)\b"
    r"|\bmy\spreference\b|\bi\s(?:don['’]t|do\snot|dislike|hate|avoid)\b.{0,20}\b(?:like|want|using|use)\b"
    r"|我(?:更喜欢|偏好|倾向|宁愿|宁可)",
    re.IGNORECASE,
)
_FIRST_PERSON: Final = lazy_pattern(r"\b(?:i|my|mine|me|we|our|ours|us|(?:i|we)['’]\w+)\b|[我咱俺]", re.IGNORECASE)
_SECOND_PERSON: Final = lazy_pattern(r"\byou(?:r|rs)?\b|\byou['’]|[你您]", re.IGNORECASE)
# The start of a sentence, and what follows a speaker's name and a colon, is capitalised whatever it is.
_NAMES: Final = lazy_pattern(r"(?<=[a-z,;] )(?!I\b)[A-Z][a-z]+|《")
_NUMBERS: Final = lazy_pattern(
    r"\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|twice|dozen|hundred|first|second|third|couple)\b"
    r"|[一二两三四五六七八九十百千]+(?:[个次年天岁只条本位名场部家]|小时|分钟|公里)",
    re.IGNORECASE,
)
_REACTS: Final = lazy_pattern(
    r"^(?:[^:\n]{1,40}:\s)?(?:(?:wow|whoa|thanks|thank\syou|awesome|cool|nice|congrats|congratulations|yeah|yep|yes"
    r"|no\sproblem|absolutely|glad|totally|definitely|haha|great|amazing|sure|bye|ok|okay|good)\b"
    r"|that(?:['’]s|\ssounds|\sis)\b|哇|谢谢|太好了|真棒|恭喜|是啊|没错|好的|哈哈|当然)",
    re.IGNORECASE,
)
_HINTED: Final = (
    (
        Cue.TELLS_WHEN,
        _TELLS_WHEN,
        ("day", "tonight", "tomorrow", "recently", "last", "next", "this", "ago", "may", *_MONTHS.split("|"), *_DIGITS),
    ),
    (Cue.INSTRUCTS, _INSTRUCTS, ("always", "ever", "from", "future", "forward", "ask")),
    (Cue.PREFERS, _PREFERS, ("prefer", "rather", "don", "not", "dislike", "hate", "avoid")),
    (
        Cue.NUMBERS,
        _NUMBERS,
        (
            *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twice", "dozen", "hundred"),
            *("first", "second", "third", "couple", *_DIGITS),
        ),
    ),
)
"""Cues whose patterns are slow, each with small letters of which one is in every ASCII text that it matches: looking
for these takes a tenth."""
_ENDS_ASKING: Final = lazy_pattern(r"[?？][\s\"'”’」』)）]*(?:\[[^\]]*\]\s*)?$")


def cues_of(text: str) -> Cue:
    """Return the cues of an item's text."""
    lowered = text.lower()
    # The hints are of the English alternatives alone.
    is_english = text.isascii()
    found = Cue.NONE
    if _ENDS_ASKING.search(text[-200:]):
        found |= Cue.ASKS
    for cue, pattern, hints in _HINTED:
        if not (is_english and _has_none(lowered, hints)) and pattern.search(text):
            found |= cue
    if _NAMES.search(text):
        found |= Cue.NAMES
    if _REACTS.match(text):
        found |= Cue.REACTS
    is_addressed = not (is_english and "you" not in lowered) and _SECOND_PERSON.search(text)
    if is_addressed and not _FIRST_PERSON.search(text):
        found |= Cue.ADDRESSES
    return found


def _has_none(lowered: str, hints: Iterable[str]) -> bool:
    # A loop: it takes half the time of a generator for `any`.
    for hint in hints:  # noqa: SIM110
        if hint in lowered:
            return False
    return True


def asks_when(query: str) -> bool:
    """Whether a question asks for a time."""
    return _ASKS_WHEN.search(query) is not None
