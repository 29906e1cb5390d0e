"""Surface cues of a question: whose words and what kind of answer it asks for, and whether for help or an overview.

Not every question is a look-up. A request on some topic should bring up what its user said to keep in mind there, and
whoever asks for a summary wants what is about the topic, in whatever words.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from devmem.text.patterns import lazy_pattern


class Side(Enum):
    """Sides of a conversation with an assistant."""

    USER = "user"
    ASSISTANT = "assistant"


_SPEAKERS: Final = {
    **dict.fromkeys(("user", "human", "用户"), Side.USER),
    **dict.fromkeys(("assistant", "ai", "bot", "chatbot", "gpt", "chatgpt", "model", "助手", "助理"), Side.ASSISTANT),
}

_FIRST_PERSON: Final = lazy_pattern(r"\b(?:i|my|mine|i['’](?:m|ve|d|ll))\b|我", re.IGNORECASE)
_ANSWERED: Final = (
    "said|told|recommended|suggested|mentioned|gave|provided|listed|explained|advised|proposed|shared|showed|wrote"
)
_ASKS_ASSISTANT: Final = lazy_pattern(
    rf"\byou\b.{{0,30}}\b(?:{_ANSWERED})\b|\bdid\syou\b"
    r"|\byour\s(?:suggestion|recommendation|advice|answer|response|list|explanation)"
    r"|你.{0,6}(?:说过|提到|推荐|建议|告诉|列出)",
    re.IGNORECASE,
)
_REQUEST: Final = lazy_pattern(
    r"\b(?:(?:can|could|would|will)\syou|how\s(?:do|can|should|would|to|does)"
    r"|what\s(?:are|is|would|should|steps|libraries)|(?:show|help|give|walk|tell)\sme|which"
    r"|suggest|recommend|explain|advice|tips|i['’]m\s(?:planning|looking|trying|thinking)|i\s(?:want|need)"
    r"|i['’]d\slike)\b"
    r"|怎么|如何|帮我|请|能不能|可不可以|推荐|建议",
    re.IGNORECASE,
)
_LOOKS_BACK: Final = lazy_pattern(
    r"\b(?:did|was|were|has|have|had|i\s(?:mention|said|told|brought|asked|discussed)\w*"
    r"|(?:previous|earlier|last)\s(?:conversation|chat|session)|remind\sme|across\s(?:my|our))\b"
    r"|之前|上次|曾经|以前|记得|过吗|了吗",
    re.IGNORECASE,
)
_OVERVIEW: Final = lazy_pattern(
    r"\b(?:summar\w*|overview|recap)\b|\bhow\b.{0,80}\b(?:progress|develop|evolv)ed\b|总结|概述|概括|回顾一下",
    re.IGNORECASE,
)
_ASKS_FOR_NAME: Final = lazy_pattern(
    r"\b(?:who|where|which"
    r"|what\s(?:book|song|movie|game|band|city|country|state|place|name|company|kind|type)\w*)\b"
    r"|谁|哪[里儿位个部本家]|叫什么|什么名字",
    re.IGNORECASE,
)
_ASKS_FOR_NUMBER: Final = lazy_pattern(
    r"\bhow\s(?:many|much|long|old|often|far|big)\b|\bwhat\s(?:number|amount|percent|time|date)"
    r"|\bwhat(?:['’]s|\s(?:is|are|was|were))\s(?:\w+['’]s|\w+)\s(?:\w+\s){0,3}?"
    r"(?:amount|number|percentage|price|cost|total|sum|age|score|budget|salary|income|rent|distance|height|weight|size)\b"
    r"|多少|几[个次年天岁位]|多[久大长远]",
    re.IGNORECASE,
)


def side_of(speaker: str) -> Side | None:
    """Return the side that a speaker's name stands for; None for anybody's own name."""
    return _SPEAKERS.get(speaker.casefold())


def side_asked_about(query: str) -> Side | None:
    """Return whose words a question asks for: "did I say" the user's, "did you suggest" the assistant's."""
    if _ASKS_ASSISTANT.search(query):
        return Side.ASSISTANT
    return Side.USER if _FIRST_PERSON.search(query) else None


def asks_for_help(query: str) -> bool:
    """Whether a question wants something done or explained now, rather than what was said before."""
    return _REQUEST.search(query) is not None and _LOOKS_BACK.search(query) is None


def asks_for_overview(query: str) -> bool:
    """Whether a question asks for a summary, or how something went on."""
    return _OVERVIEW.search(query) is not None


def asks_for_name(query: str) -> bool:
    """Whether a question asks who, where or which one."""
    return _ASKS_FOR_NAME.search(query) is not None


def asks_for_number(query: str) -> bool:
    """Whether a question asks how many, how much or how long."""
    return _ASKS_FOR_NUMBER.search(query) is not None
