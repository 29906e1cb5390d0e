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
from devmem.text.patterns import lazy_pattern


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
    r"|什[么麼][时時]候|何[时時]|哪一?[天年月日]|[几幾][月号號点點]|多久|多[长長][时時][间間]",
    re.IGNORECASE,
)
_ASKS_LATEST: Final = lazy_pattern(
    r"\b(?:last\stime|most\srecent(?:ly)?|latest|(?:did|have|has|was|were|had)\b[^.?!]{0,60}?\blast"
    rf"(?!\s(?:night|morning|evening|week|weekend|month|year|spring|summer|fall|autumn|winter|{_DAYS}|{_MONTHS}|\d))"
    r"|(?:my|our|his|her|their|the)\slast\s(?:call|message|text|mail|e-?mail|meeting|chat|visit|note|photo|picture))\b"
    r"|上(?:一)?次|最近一次|最[后後]一次",
    re.IGNORECASE,
)
_KINDS: Final = {
    Cue.MESSAGE: lazy_pattern(r"\b(?:messag(?:es?|ed)|text(?:s|ed)?|sms)\b|短信|信息|消息|微信", re.IGNORECASE),
    Cue.CALL: lazy_pattern(r"\b(?:calls?|called|phone(?:d|s)?|rang)\b|电话|通话", re.IGNORECASE),
    Cue.EVENT: lazy_pattern(r"\b(?:appointments?|meetings?|calendar|events?)\b|日程|会议|预约", re.IGNORECASE),
    Cue.NOTE: lazy_pattern(r"\b(?:notes?|noted|memos?)\b|笔记|备忘", re.IGNORECASE),
    Cue.PHOTO: lazy_pattern(r"\b(?:photos?|photograph(?:s|ed)?|pictures?|selfies?)\b|照片|相片|拍照", re.IGNORECASE),
    Cue.NOTIFICATION: lazy_pattern(r"\bnotifications?\b|通知|推送", re.IGNORECASE),
    Cue.CHAT: lazy_pattern(r"\bchat(?:s|ted)?\b|聊天", re.IGNORECASE),
}
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
        if (not is_english or any(map(lowered.__contains__, hints))) and pattern.search(text):
            found |= cue
    if _NAMES.search(text):
        found |= Cue.NAMES
    is_addressed = not (is_english and "you" not in lowered) and _SECOND_PERSON.search(text)
    if is_addressed and not _FIRST_PERSON.search(text):
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
_ANSWERED: Final = (
    "said|told|recommended|suggested|mentioned|gave|provided|listed|explained|advised|proposed|shared|showed|wrote"
)
_ASKS_ASSISTANT: Final = lazy_pattern(
    rf"\byou\b.{{0,30}}\b(?:{_ANSWERED})\b|\bdid\syou\b"
    r"|\byour\s(?:suggestion|recommendation|advice|answer|response|list|explanation)"
    r"|[你您].{0,6}(?:[说說][过過]|提到|推[荐薦]|建[议議]|告[诉訴]|列出)",
    re.IGNORECASE,
)
_REQUEST: Final = lazy_pattern(
    r"\b(?:(?:can|could|would|will)\syou|how\s(?:do|can|should|would|to|does)"
    r"|what\s(?:are|is|would|should|steps|libraries)|(?:show|help|give|walk|tell)\sme|which"
    r"|suggest|recommend|explain|advice|tips|i['’]m\s(?:planning|looking|trying|thinking)|i\s(?:want|need)"
    r"|i['’]d\slike)\b"
    r"|怎[么麼]|如何|[帮幫]我|[请請]|能不能|可不可以|推[荐薦]|建[议議]",
    re.IGNORECASE,
)
_LOOKS_BACK: Final = lazy_pattern(
    r"\b(?:did|was|were|has|have|had|i\s(?:mention|said|told|brought|asked|discussed)\w*"
    r"|(?:previous|earlier|last)\s(?:conversation|chat|session)|remind\sme|across\s(?:my|our))\b"
    r"|之前|上次|曾[经經]|以前|[记記]得|[过過][吗嗎]|了[吗嗎]",
    re.IGNORECASE,
)
_OVERVIEW: Final = lazy_pattern(
    r"\b(?:summar\w*|overview|recap)\b|\bhow\b.{0,80}\b(?:progress|develop|evolv)ed\b|[总總][结結]|概述|概括|回[顾顧]一下",
    re.IGNORECASE,
)
_ASKS_FOR_NAME: Final = lazy_pattern(
    r"\b(?:who|where|which"
    r"|what\s(?:book|song|movie|game|band|city|country|state|place|name|company|kind|type)\w*)\b"
    r"|[谁誰]|哪[里裡裏儿兒位个個部本家]|叫什[么麼]|什[么麼]名字",
    re.IGNORECASE,
)
_ASKS_FOR_NUMBER: Final = lazy_pattern(
    r"\bhow\s(?:many|much|long|old|often|far|big)\b|\bwhat\s(?:number|amount|percent|time|date)"
    r"|\bwhat(?:['’]s|\s(?:is|are|was|were))\s(?:\w+['’]s|\w+)\s(?:\w+\s){0,3}?"
    r"(?:amount|number|percentage|price|cost|total|sum|age|score|budget|salary|income|rent|distance|height|weight|size)\b"
    r"|多少|[几幾][个個次年天岁歲位]|多[久大长長远遠]",
    re.IGNORECASE,
)


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
