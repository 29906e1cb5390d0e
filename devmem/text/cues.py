"""Surface cues of a text: whether it only asks, what it holds, and what it says to keep in mind.

An item's metadata add cues of their own. Whoever changes how a cue is recognised raises `ANALYSIS_VERSION`, so that
stored items get their cues again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, IntFlag
from functools import lru_cache
from typing import Final

from devmem.model.items import MemoryItem
from devmem.model.record_fields import KIND, is_record, span_of
from devmem.text.analysis import STOP_WORDS, terms
from devmem.text.patterns import lazy_pattern, named_pattern


class Cue(IntFlag):
    """Cues of an item's text; recorded with the item."""

    NONE = 0
    IS_QUESTION = 1
    """It ends in a question."""
    HAS_TIME = 2
    """It holds an expression of time: `yesterday`, `last week`, `in May`, a year, a date."""
    INSTRUCTS = 4
    """It is a standing instruction: `always show types`, `whenever I ask`."""
    PREFERS = 8
    """It says what somebody would rather have: `I prefer`, `I'd rather`."""
    SECOND_PERSON = 16
    """It speaks to somebody and not of its speaker: `you`, `your`, without `I`, `my` or `we`."""
    NAMES = 32
    """It holds a name: a capitalised word within a sentence, or a title."""
    RECORD = 64
    """It is a record, such as a call or a photo: its metadata say what kind, and its time is known."""
    # 128 was of texts that react to another.
    LASTS = 256
    """Its metadata say from when to when it lasted."""
    MESSAGE = 512
    CALL = 1024
    EVENT = 2048
    NOTE = 4096
    PHOTO = 8192
    NOTIFICATION = 16384
    CHAT = 32768


_MONTHS: Final = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAYS: Final = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_DIGITS: Final = tuple("0123456789")
# These are searched for in small letters, in half the time of a search that ignores case.
_TELLS_WHEN: Final = named_pattern("cues.txt", "tells_when", 0)
_INSTRUCTS: Final = named_pattern("cues.txt", "instructs", 0)
_PREFERS: Final = named_pattern("cues.txt", "prefers", 0)
_FIRST_PERSON: Final = lazy_pattern(r"\b(?:i|my|mine|me|we|our|ours|us|(?:i|we)['’]\w+)\b|[我咱俺]")
_SECOND_PERSON: Final = lazy_pattern(r"\byou(?:r|rs)?\b|\byou['’]|[你您]")
_ASKS_WHEN: Final = named_pattern("cues.txt", "asks_when")
_ASKS_LATEST: Final = named_pattern("cues.txt", "asks_latest")
_KINDS: Final = {
    Cue.MESSAGE: lazy_pattern(r"\b(?:messag(?:es?|ed)|text(?:s|ed)?|sms)\b|短信|信息|消息|微信", re.IGNORECASE),
    Cue.CALL: lazy_pattern(r"\b(?:calls?|called|phone(?:d|s)?|rang)\b|电话|通话", re.IGNORECASE),
    Cue.EVENT: lazy_pattern(r"\b(?:appointments?|meetings?|calendar|events?)\b|日程|会议|预约", re.IGNORECASE),
    Cue.NOTE: lazy_pattern(r"\b(?:notes?|noted|memos?)\b|笔记|备忘", re.IGNORECASE),
    Cue.PHOTO: lazy_pattern(r"\b(?:photos?|photograph(?:s|ed)?|pictures?|selfies?)\b|照片|相片|拍照", re.IGNORECASE),
    Cue.NOTIFICATION: lazy_pattern(r"\bnotifications?\b|通知|推送", re.IGNORECASE),
    Cue.CHAT: lazy_pattern(r"\bchat(?:s|ted)?\b|聊天", re.IGNORECASE),
}
# The start of a sentence, and what follows a speaker's name and a colon, is capitalised whatever it is.
_NAMES: Final = lazy_pattern(r" (?<=[a-z,;] )(?!I\b)[A-Z][a-z]+|《")
_HINTED: Final = (
    (
        Cue.HAS_TIME,
        _TELLS_WHEN,
        ("day", "tonight", "tomorrow", "recently", "last", "next", "this", "ago", "may", *_MONTHS.split("|"), *_DIGITS),
    ),
    (Cue.INSTRUCTS, _INSTRUCTS, ("always", "ever", "from", "future", "forward", "ask")),
    (Cue.PREFERS, _PREFERS, ("prefer", "rather", "don", "not", "dislike", "hate", "avoid")),
)
"""Cues whose patterns are slow, each with small letters of which one is in every ASCII text that it matches: looking
for these takes a tenth."""
_ENDS_ASKING: Final = lazy_pattern(r"[?？][\s\"'”’」』)）]*(?:\[[^\]]*\]\s*)?$")


def cues_of_item(item: MemoryItem) -> Cue:
    """Return the cues of an item: of its summary, and of its metadata."""
    found = cues_of(item.content_summary)
    if is_record(item):
        found |= Cue.RECORD | Cue[str(item.metadata[KIND]).upper()]
    if span_of(item.metadata) is not None:
        found |= Cue.LASTS
    return found


def cues_of(text: str) -> Cue:
    """Return the cues of an item's text."""
    lowered = text.lower()
    # The hints are of the English alternatives alone.
    is_english = text.isascii()
    found = Cue.NONE
    if _ENDS_ASKING.search(text[-200:]):
        found |= Cue.IS_QUESTION
    for cue, pattern, hints in _HINTED:
        if (not is_english or any(map(lowered.__contains__, hints))) and pattern.search(lowered):
            found |= cue
    if _NAMES.search(text):
        found |= Cue.NAMES
    is_addressed = not (is_english and "you" not in lowered) and _SECOND_PERSON.search(lowered)
    if is_addressed and not _FIRST_PERSON.search(lowered):
        found |= Cue.SECOND_PERSON
    return found


_OF_ONE_QUERY: Final = lru_cache(maxsize=8)
"""A search asks the same of its query several times."""


@_OF_ONE_QUERY
def asks_when(query: str) -> bool:
    """Whether a question asks for a time."""
    return _ASKS_WHEN.search(query) is not None


@_OF_ONE_QUERY
def asks_for_latest(query: str) -> bool:
    """Whether a question asks for the last time that something happened."""
    return _ASKS_LATEST.search(query) is not None


def kinds_named(query: str) -> Cue:
    """Return the kinds of records that a question names: `call`, `texted`, `photo`, `电话`; none are no cue."""
    found = Cue.NONE
    for kind, pattern in _KINDS.items():
        if pattern.search(query):
            found |= kind
    return found


class Side(Enum):
    """Sides of a conversation with an assistant."""

    USER = "user"
    ASSISTANT = "assistant"


_SPEAKERS: Final = {
    **dict.fromkeys(("user", "human", "用户", "用戶"), Side.USER),
    **dict.fromkeys(("assistant", "ai", "bot", "chatbot", "gpt", "chatgpt", "model", "助手", "助理"), Side.ASSISTANT),
}

_ASKS_SPEAKER: Final = lazy_pattern(r"\b(?:i|my|mine|i['’](?:m|ve|d|ll))\b|我", re.IGNORECASE)
_ASKS_ASSISTANT: Final = named_pattern("cues.txt", "asks_assistant")
_REQUEST: Final = named_pattern("cues.txt", "request")
_LOOKS_BACK: Final = named_pattern("cues.txt", "looks_back")
_OVERVIEW: Final = named_pattern("cues.txt", "overview")
_ASKS_FOR_NAME: Final = named_pattern("cues.txt", "asks_for_name")
_ASKS_FOR_NUMBER: Final = named_pattern("cues.txt", "asks_for_number")


def side_of(speaker: str) -> Side | None:
    """Return the side that a speaker's name stands for; None for anybody's own name."""
    return _SPEAKERS.get(speaker.casefold())


def side_asked_about(query: str) -> Side | None:
    """Return whose words a question asks for: "did I say" the user's, "did you suggest" the assistant's."""
    if _ASKS_ASSISTANT.search(query):
        return Side.ASSISTANT
    return Side.USER if _ASKS_SPEAKER.search(query) else None


@_OF_ONE_QUERY
def asks_for_help(query: str) -> bool:
    """Whether a question wants something done or explained now, rather than what was said before."""
    return _REQUEST.search(query) is not None and _LOOKS_BACK.search(query) is None


@_OF_ONE_QUERY
def asks_for_overview(query: str) -> bool:
    """Whether a question asks for a summary, or how something went on."""
    return _OVERVIEW.search(query) is not None


@_OF_ONE_QUERY
def asks_for_name(query: str) -> bool:
    """Whether a question asks who, where or which one."""
    return _ASKS_FOR_NAME.search(query) is not None


@_OF_ONE_QUERY
def asks_for_number(query: str) -> bool:
    """Whether a question asks how many, how much or how long."""
    return _ASKS_FOR_NUMBER.search(query) is not None


_ROLES: Final = frozenset("user assistant system human ai bot agent tool".split())
"""Speakers that are roles, not names: a question that has such a word need not mean who spoke."""
_JOINS: Final = lazy_pattern(r"(?:['’]s?)?[\s,、]*(?:(?:and|or|&|和|与|與|及|或)(?:\sboth)?)?[\s,]*", re.IGNORECASE)
"""Text between two names that are named together."""
_GREETING: Final = lazy_pattern(r"\W*(?:(?:hey|hi|hello|dear|ok|okay|well|so|嗨|你好)\b\W*)?", re.IGNORECASE)
"""Text before the name of somebody who is addressed."""
_AFTER_ADDRESS: Final = lazy_pattern(r"\s*[,:!\uff0c\uff1a\uff01]")
_WORD: Final = lazy_pattern(r"\w+(?:[.\-'’]\w+)*")


def mentioned(query: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return the speakers that the query names, by the whole name or by its first word."""
    words = set(terms(query))
    return frozenset(name for name in speakers if _is_named(name, words))


def subjects(query: str, speakers: Iterable[str]) -> frozenset[str]:
    """Return whom a query is about: the first that it names, and those who are named together with them.

    "What did Ann tell Ben?" asks for what Ann said; "What do Ann and Ben like?" for what both said; "Ann, what did Ben
    say?" addresses Ann.

    Args:
        query: the question.
        speakers: those whom it names.
    """
    places = _without_address(query, sorted((*_place(query, name), name) for name in speakers))
    found: set[str] = set()
    last = 0
    for start, end, name in places:
        if found and start >= last and not _JOINS.fullmatch(query[last:start]):
            break
        found.add(name)
        last = max(last, end)
    return frozenset(found)


def _without_address(query: str, places: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the places of names without that of somebody who is only addressed before others are named."""
    if len(places) < 2:
        return places
    (start, end, _), (following, _, _) = places[:2]
    addressed = _GREETING.fullmatch(query[:start]) and _AFTER_ADDRESS.match(query[end:])
    joined = following < end or _JOINS.fullmatch(query[end:following])
    return places[1:] if addressed and not joined else places


def _is_named(name: str, words: set[str]) -> bool:
    parts = terms(name)
    if name.casefold() in _ROLES or all(part in STOP_WORDS for part in parts):
        # Somebody called "Me" or "Will" cannot be told from the word.
        return False
    # A single character of a script without spaces is a word: the whole name has to occur.
    first = parts[0]
    by_first = len(first) > 1 and first.isascii() and first not in STOP_WORDS and first in words
    return by_first or all(part in words for part in parts)


def _place(query: str, name: str) -> tuple[int, int]:
    """Return start and end of a name in a query, or of the first word that it is named by."""
    for text in (name, name.split()[0]):
        found = re.search(rf"(?<![a-z]){re.escape(text)}(?![a-z])", query, re.IGNORECASE)
        if found:
            return found.span()
    # Written in another way: "Dr Who" for "Dr. Who", "Chris" for "@chris".
    first = terms(name)[0]
    return next((word.span() for word in _WORD.finditer(query) if first in terms(word[0])), (len(query), len(query)))
