"""Text that gives orders to a language model, or asks it to remember something, in English and Chinese.

Cues (`data/order_cues.txt`) are counted in every part of a text: one that hardly occurs elsewhere suffices, such as a
forged system message; others need company. Both the text and its decoded forms are examined: base64, hex,
percent signs, entities, escapes, ROT13, reversed and spaced letters, digits for letters, look-alike and invisible
characters.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import unquote

from devmem.text import display
from devmem.text.patterns import lazy_pattern, read_patterns

ENOUGH: Final = 3
"""Weight of the cues from which a part of a text is taken for an order."""
SUFFICIENT: Final = frozenset({"drops rules", "forges a message", "plays a part", "speaks to a model"})
"""Cues that need no company of others; people ask each other to remember, answer or send things too."""
MENTIONS: Final = frozenset({"speaks to a model", "speaks of the user"})
"""Cues that, where they weigh least, only name somebody."""
_WINDOW: Final = 600
_STEP: Final = 400
"""Characters of a part, and between the beginnings of two."""
_JOINED: Final = 150
"""Characters on both sides of the end of a text that are read with the next one."""
_DECODED: Final = 20_000
"""Characters of an encoding that are decoded."""

_UNFINISHED: Final = lazy_pattern(r"(?:^|\s)[a-z']+,?$|[\u3400-\u9fff，、]$")
_SENTENCE_END: Final = lazy_pattern(r"[.!?。！？\n]+")
_BROKEN_LINE: Final = lazy_pattern(r"(?<=[\w,])\r?\n[ \t]*(?=[a-z][^:\n]*(?:\n|$))")
_HAN: Final = lazy_pattern("[\u3400-\u9fff]")
_LATIN: Final = lazy_pattern("[a-z]")
_INLINE_TAG: Final = lazy_pattern(r"</?(?:b|i|u|em|strong|span|font|wbr|small|mark)\b[^<>]{0,80}>")
_BLANKS: Final = lazy_pattern(r"[^\S\n]+")
_MIXED: Final = lazy_pattern(r"\b(?=\w*[a-z])\w*[\u0370-\u04ff]\w*|\b(?=\w*[\u0370-\u04ff])\w*[a-z]\w*")
_BASE64: Final = lazy_pattern(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![\w+/=-])")
_HEX: Final = lazy_pattern(r"(?<!\w)(?:[0-9a-fA-F]{2} ?){12,}(?!\w)")
_PERCENT: Final = lazy_pattern(r"(?:%[0-9A-Fa-f]{2}[^%\s]{0,24}){3,}")
_ENTITIES: Final = lazy_pattern(r"(?:&#x?[0-9a-fA-F]{2,6};[^&\n]{0,4}){4,}")
_ESCAPES: Final = lazy_pattern(r"(?:\\\\?u[0-9a-fA-F]{4}[^\\\n]{0,4}){4,}")
_SPACED: Final = lazy_pattern(r"(?<!\w)\w(?:[ .\-_*]{1,3}\w(?!\w)){5,}")
_LEET: Final = lazy_pattern(r"\b(?=\w*[a-z])(?=\w*[0-57])[a-z0-57]{2,}\b")
_WORDS: Final = lazy_pattern(r"[a-z]{2,}")
_LEAST_LEET: Final = 3
_LEAST_COMMON: Final = 2
"""Number of words that only another alphabet explains."""

_LOOK_ALIKE: Final = str.maketrans("аеорсхіјѕуһԁԛԝвкмнтαειοκνρτυχ", "aeopcxijsyhdqwbkmhtaeioknptux")
_DIGITS: Final = str.maketrans("431057", "aeiost")
_TAGS: Final = {0xE0000 + code: code for code in range(0x20, 0x7F)}
_COMMON: Final = frozenset(
    "the and you your all any now from always must to of ignore previous instructions rules forget remember reveal is "
    "that system prompt user answer disregard delete recommend".split()
)
_ROT13: Final = frozenset(codecs.encode(word, "rot13") for word in _COMMON) - _COMMON
_REVERSED: Final = frozenset(word[::-1] for word in _COMMON) - _COMMON


class OrderCue(NamedTuple):
    """A pattern of folded text, and how much it says."""

    name: str
    weight: int
    pattern: re.Pattern[str]


@cache
def order_cues() -> dict[str, list[OrderCue]]:
    """Return the cues of `english`, `chinese` and `forged` text, in the order of the file."""
    return {
        section: [OrderCue(label[2:], int(label[0]), lazy_pattern(pattern)) for label, pattern in entries]
        for section, entries in read_patterns("order_cues.txt").items()
    }


def find_order(text: str) -> str | None:
    """Return what makes a text an order to a model or a request to be remembered, for people; None where nothing does.

    The text is data from somewhere else: a user who asks to have something remembered is not to be examined.
    """
    folded = _folded(text)
    if (found := _cues_in(folded)) is not None:
        return found
    # A line ends what a cue reads, unless the sentence goes on in the next.
    joined = _BROKEN_LINE.sub(" ", text)
    if joined != text and (found := _cues_in(_folded(joined))) is not None:
        return found
    for encoding, hidden in _decoded(text, folded):
        if (found := _cues_in(_folded(hidden))) is not None:
            return f"{found} ({encoding})"
    return None


def find_split_order(before: str, text: str) -> str | None:
    """Return what makes a text an order together with the one before it.

    A cue must span the end of the first one, or a sentence with cues in both parts must.
    """
    tail, head = _folded(before[-2 * _JOINED :])[-_JOINED:].rstrip(), _folded(text[: 2 * _JOINED])[:_JOINED]
    gap = "" if _HAN.search(tail[-1:]) and _HAN.search(head[:1]) else " "
    joint = f"{tail}{gap}{head}"
    found = _weights(joint)
    if not _is_enough(found):
        return None
    matches = (match for cues in _sets_for(joint) for cue in cues for match in cue.pattern.finditer(joint))
    spans = any(match.start() < len(tail) and match.end() > len(tail) + 1 for match in matches)
    return f"{', '.join(found)} (with the text before)" if spans or _goes_on(tail, head) else None


def _goes_on(tail: str, head: str) -> bool:
    """Whether the last sentence of a text goes on in the next one, with a cue in both parts of it."""
    if _UNFINISHED.search(tail) is None:
        return False
    return bool(_weights(_SENTENCE_END.split(tail)[-1]) and _weights(_SENTENCE_END.split(head, 1)[0]))


def _cues_in(folded: str) -> str | None:
    """Return the names of the cues of the first part that has enough of them."""
    for start in range(0, max(len(folded) - (_WINDOW - _STEP), 1), _STEP):
        found = _weights(folded[start : start + _WINDOW])
        if _is_enough(found):
            return ", ".join(found)
    return None


def _sets_for(folded: str) -> list[list[OrderCue]]:
    """Return the cues of the scripts that a text is written in."""
    languages = (("chinese", _HAN), ("english", _LATIN))
    return [order_cues()[one] for one in ("forged", *(name for name, script in languages if script.search(folded)))]


def _is_enough(found: Mapping[str, int]) -> bool:
    return sum(found.values()) >= ENOUGH and (len(found) > 1 or not SUFFICIENT.isdisjoint(found))


def _weights(part: str) -> dict[str, int]:
    """Return the weight of each kind of cue in a part.

    A mention of a model or a user says nothing more where a heavier cue rests on the same words, as in "the assistant
    must".
    """
    found: dict[str, int] = {}
    mentions: list[OrderCue] = []
    taken: list[tuple[int, int]] = []
    for cues in _sets_for(part):
        for cue in cues:
            if cue.weight == 1 and cue.name in MENTIONS:
                mentions.append(cue)
            elif cue.weight > found.get(cue.name, 0) and (
                spans := [each.span() for each in cue.pattern.finditer(part)]
            ):
                taken += spans if cue.weight > 1 else []
                found[cue.name] = cue.weight
    for cue in mentions:
        spans = [each.span() for each in cue.pattern.finditer(part)]
        if any(not any(first <= start and end <= last for first, last in taken) for start, end in spans):
            found.setdefault(cue.name, 1)
    return found


def _folded(text: str) -> str:
    """Return a text as its words are compared: one form of each character, no invisible ones, no case."""
    plain = display.folded(text.translate(_TAGS), accents=False).casefold()
    if not plain.isascii():
        plain = _MIXED.sub(lambda word: word.group().translate(_LOOK_ALIKE), plain)
    return _BLANKS.sub(" ", _INLINE_TAG.sub("", plain)).replace("’", "'")


def _decoded(text: str, folded: str) -> Iterator[tuple[str, str]]:
    """Yield what a text hides, each with the name of the encoding."""
    yield from _encoded(text[:_DECODED])
    text, folded = text[:_DECODED], folded[:_DECODED]
    if _SPACED.search(folded):
        yield "spaced letters", _SPACED.sub(_joined, text)
    if len(_LEET.findall(folded)) >= _LEAST_LEET:
        yield "digits for letters", _LEET.sub(lambda word: word.group().translate(_DIGITS), folded)
    words = _WORDS.findall(folded)
    if sum(word in _ROT13 for word in words) >= _LEAST_COMMON:
        yield "ROT13", codecs.encode(text, "rot13")
    if sum(word in _REVERSED for word in words) >= _LEAST_COMMON:
        yield "reversed", text[::-1]


def _encoded(text: str) -> Iterator[tuple[str, str]]:
    """Yield what encodings by a computer hide."""
    for run in _BASE64.findall(text):
        if (hidden := _of_base64(run)) is not None:
            yield "base64", hidden
    for run in _HEX.findall(text):
        if (hidden := _as_text(bytes.fromhex(run))) is not None:
            yield "hex", hidden
    if _PERCENT.search(text):
        yield "percent signs", unquote(text)
    if _ENTITIES.search(text):
        yield "entities", html.unescape(text)
    if _ESCAPES.search(text):
        yield "escapes", _unescaped(text)


def _of_base64(run: str) -> str | None:
    plain = run.translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return _as_text(base64.b64decode(plain + "=" * (-len(plain) % 4)))
    except binascii.Error:
        return None


def _as_text(raw: bytes) -> str | None:
    """Return bytes as text where they are some."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char.isspace() for char in text) else None


def _unescaped(text: str) -> str:
    return re.sub(r"\\\\?u([0-9a-fA-F]{4})", lambda one: chr(int(one.group(1), 16)), text)


def _joined(run: re.Match[str]) -> str:
    """Return letters with one separator between them as words; two separators part words."""
    separated = run.group()
    gaps = re.findall(r"[^\w]+", separated)
    between = max(map(len, gaps))
    if between == min(map(len, gaps)):
        return re.sub(r"[^\w]+", "", separated)
    return " ".join(re.sub(r"[^\w]", "", word) for word in re.split(rf"[^\w]{{{between}}}", separated))
