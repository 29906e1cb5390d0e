"""Whether two texts state the same of one subject with another value: a number, a date, a name, a negation.

No model is asked. A text is cut into clauses, and of each clause the values are told from the frame, which are the
words around them. Two clauses are related when their frames are the same and exactly one value differs; where the newer
text says that something changed ("now", "moved to", "改到"), one frame may say more than the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from devmem.text.analysis import STOP_WORDS, mostly_unspaced, terms
from devmem.text.patterns import lazy_pattern

_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_NUMBER_WORDS: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million half dozen once twice"
).replace(" ", "|")
_VALUE: Final = lazy_pattern(
    rf"""(?P<date>\b\d{{4}}-\d\d-\d\d\b
    |\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?{_MONTH}(?:,?\s\d{{4}})?(?!\w)
    |\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b
    |\b(?:in|until|by|since|for|to|from)\s{_MONTH}(?!\w)(?:\s\d{{4}})?
    |\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:today|tonight|tomorrow)\b
    |\b(?:this|next|last)\s(?:week|month|year|spring|summer|autumn|fall|winter)\b)
    |(?P<number>[$€£]?\b\d[\d,.:\-/]*\d\s?(?:am|pm|%)?|[$€£]?\b\d\s?(?:am|pm|%)?(?:st|nd|rd|th)?
    |\b(?:noon|midnight)\b|\b(?:{_NUMBER_WORDS})(?:-\w+)?\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_NAME: Final = lazy_pattern(r"\b[A-Z][\w'’&.-]*(?:\s(?:(?:of|the|de|van|von|&|and)\s)?[A-Z][\w'’&.-]*)*")
_SENTENCE: Final = lazy_pattern(r"(?<=[.!?;])\s+|\n+")
_CLAUSE: Final = lazy_pattern(r"(?<!\d),\s+(?!\d)|:\s+|\s[-–—]\s|,\s+(?=[a-z])")
_WORD: Final = lazy_pattern(r"[\w'’-]+|\x00\d+")
_USUAL_VERB: Final = 2
"""Place of a verb that is not known."""
_MARKERS: Final = frozenset(
    """now instead anymore longer actually correction new changed change moved moves move shifted rescheduled
    postponed pushed switched updated replaced became becomes brought raised increased reduced lowered cut
    extended delayed relocated already currently meanwhile again later earlier finally""".split()
)
"""Words that say that something changed; they are no part of a frame."""
_NEGATIONS: Final = frozenset("not no never cannot without neither none nobody nothing stopped".split())
_BE: Final = frozenset("is are was were be been being am will 's 're isn aren".split())
_STATE: Final = frozenset(
    """live lives lived work works located place held meet meets sit sits stay stays called named based hosted host
    hosts hold holds fit fits report reports belong belongs lead leads manage manages study studies teach teaches
    parked stored kept sleep sleeps play plays cost costs start starts begin begins open opens close closes leave
    leaves arrive arrives take takes need needs weigh weighs run runs last lasts end ends due has have use uses
    speak speaks drive drives drink drinks eat eats own owns pay pays earn earns charge charges require requires
    allow allows include includes contain contains seat seats measure measures depart departs prefer prefers give
    gives answer answers go goes sponsor sponsors chair chairs handle handles""".split()
)
"""Verbs of what holds until it changes, unlike what happens once and again."""
_SINGLE: Final = frozenset(
    """live lives work works located place held meet meets sit sits stay stays called named based hosted host hosts
    report reports belong belongs study studies teach teaches parked stored kept sleep sleeps park parks""".split()
)
"""Verbs of which one place or person is the object at a time."""
_PAST: Final = frozenset(
    """ran bought ate paid met saw went spent drank read sold sent wrote made got gave took drove flew swam won lost
    had came found heard told said did built caught cost grew held""".split()
)
_PRONOUNS: Final = frozenset("it its they their them he his she her hers this that".split())
_SMALL: Final = STOP_WORDS | frozenset(
    "at on in by until till from to for of per each around about roughly approximately".split()
)


@dataclass(frozen=True, slots=True)
class EnglishClause:
    """One clause, taken apart."""

    frame: frozenset[str]
    """Stems of the words that are no values."""
    context: frozenset[str]
    """Stems and names of the clause before it, where a pronoun refers to that."""
    values: Mapping[str, tuple[str, ...]]
    """Dates, numbers and names."""
    first: str
    """The first word, where it may be a name; empty otherwise."""
    subject: frozenset[str]
    """Values that stand before the verb."""
    changes: bool
    """Whether it says that something changed."""
    negated: bool
    state: bool
    """Whether it tells what holds, not what happened once."""
    single: bool
    """Whether its verb has one place or person as its object at a time."""
    definite: bool
    """Whether its object is a certain one, `the opening talk`."""
    names: frozenset[str] = field(default=frozenset())


def english_clauses(text: str) -> tuple[EnglishClause, ...]:
    """Return the clauses of a text that state something."""
    found: list[EnglishClause] = []
    before: EnglishClause | None = None
    for sentence in _SENTENCE.split(text):
        changes = False
        asks = sentence.rstrip(" \"')").endswith("?")
        for part in _CLAUSE.split(sentence):
            clause = _clause(part, before, changes=changes)
            if clause is None:
                continue
            before, changes = clause, clause.changes
            if not asks:
                found.append(clause)
    return tuple(found)


def is_english_update(older: EnglishClause, newer: EnglishClause) -> bool:
    """Whether a clause states again what an older one does, but for one value."""
    if not _same_frame(older, newer):
        return False
    differing = [kind for kind in ("date", "number", "name") if _differs(older, newer, kind)]
    swapped = older.first != newer.first and bool(older.first or newer.first)
    if older.negated != newer.negated:
        return not differing and not swapped
    if len(differing) + swapped != 1 or older.negated:
        return False
    if swapped:
        return newer.changes and newer.definite
    (kind,) = differing
    if _in_subject(older, newer, kind):
        return kind == "name" and newer.changes and newer.definite
    if kind == "name" and not (newer.changes or newer.single):
        return False
    return newer.changes or (older.state and newer.state)


def _same_frame(older: EnglishClause, newer: EnglishClause) -> bool:
    if older.frame == newer.frame and older.frame:
        # A pronoun has to mean the same.
        return not (older.context and newer.context) or not older.context.isdisjoint(newer.context)
    whole, other = older.frame | older.context, newer.frame | newer.context
    if not newer.changes or not older.frame or not newer.frame:
        return False
    smaller, larger = sorted((older.frame, newer.frame), key=len)
    return (
        smaller <= larger
        or (smaller <= (whole & other) and bool(older.frame & newer.frame))
        or (older.frame <= other and bool(older.frame & newer.frame))
    )


def _differs(older: EnglishClause, newer: EnglishClause, kind: str) -> bool:
    one, other = older.values.get(kind, ()), newer.values.get(kind, ())
    if not one or not other:
        return False if not one and not other else kind != "name" and not newer.changes
    if newer.changes and set(one) < set(other):
        # "moved from 5 May to 2 June"
        return True
    if len(one) != len(other):
        return True
    return sum(a != b for a, b in zip(one, other, strict=True)) == 1 or one != other


def _in_subject(older: EnglishClause, newer: EnglishClause, kind: str) -> bool:
    # Only one of the two may have a value of this kind.
    one, other = set(older.values.get(kind, ())), set(newer.values.get(kind, ()))
    gone, come = one - other, other - one
    return bool(gone & older.subject) or bool(come & newer.subject)


def _clause(text: str, before: EnglishClause | None, *, changes: bool) -> EnglishClause | None:
    values: dict[str, list[str]] = {}
    order: list[tuple[str, str]] = []

    def kept(match: re.Match[str]) -> str:
        kind = "date" if match["date"] else "number"
        value = _plain(match[0])
        values.setdefault(kind, []).append(value)
        order.append((kind, value))
        return f" \x00{len(order) - 1} "

    rest = _NAME.sub(lambda match: _named(match, values, order), _VALUE.sub(kept, text.strip()))
    words = [word for word in _WORD.findall(rest) if word]
    if not words:
        return None
    lowered = [word.casefold().replace("’", "'") for word in words]
    plain = {word.removesuffix("'s") for word in lowered} | {part for word in lowered for part in word.split("'")}
    verb = next((at for at, word in enumerate(lowered) if _is_verb(word)), _USUAL_VERB)
    first = words[0] if words[0][0].isupper() and lowered[0] not in _SMALL and words[0] != "I" else ""
    frame = _frame(lowered[1:] if first else lowered)
    pronoun = bool(plain & _PRONOUNS)
    if pronoun and before is not None and not frame:
        frame = before.frame
    names = frozenset(values.get("name", ()))
    is_past = any(word in _PAST or (word.endswith("ed") and word not in _MARKERS) for word in lowered)
    is_passive = bool(plain & _BE)
    return EnglishClause(
        frame=frame,
        context=(before.frame | before.names | frozenset(_frame([before.first])))
        if pronoun and before
        else frozenset(),
        values={kind: tuple(found) for kind, found in values.items()},
        first=_plain(first).removesuffix("'s"),
        subject=frozenset(order[int(word[1:])][1] for word in words[:verb] if word.startswith("\x00")),
        changes=changes or bool(plain & _MARKERS),
        negated=bool(plain & _NEGATIONS) or any(word.endswith("n't") for word in lowered),
        state=not is_past or is_passive,
        single=is_passive or bool(plain & _SINGLE),
        definite=" the " in f" {' '.join(lowered[1:])} ",
        names=names,
    )


def _named(match: re.Match[str], values: dict[str, list[str]], order: list[tuple[str, str]]) -> str:
    name = match[0]
    at_start = not match.string[: match.start()].strip()
    if at_start and " " in name and name.split()[0].casefold() in _SMALL:
        # "The Rivers Fund": the article is no part of the name.
        article, _, name = name.partition(" ")
        return f"{article} {_kept_name(name, values, order)}"
    if (at_start and " " not in name) or name == "I" or name.startswith("I'"):
        return name
    return _kept_name(name, values, order)


def _kept_name(name: str, values: dict[str, list[str]], order: list[tuple[str, str]]) -> str:
    value = _plain(name).removesuffix("'s")
    values.setdefault("name", []).append(value)
    order.append(("name", value))
    return f" \x00{len(order) - 1} "


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").strip(" .,").split())


def _is_verb(word: str) -> bool:
    return word in _BE or word in _STATE or word in _MARKERS or word in _PAST or "'" in word


def _frame(words: list[str]) -> frozenset[str]:
    kept = (
        word.removesuffix("'s")
        for word in words
        if not word.startswith("\x00") and word not in _MARKERS and word not in _NEGATIONS and word not in _BE
    )
    said = (term for word in kept if not word.endswith("n't") for term in terms(word))
    return frozenset(term for term in said if term not in _SMALL and len(term) > 1)


_STATEMENTS_ZH_SENTENCE: Final = lazy_pattern("(?<=[。!?;！？；])|\\n+")
_STATEMENTS_ZH_CLAUSE: Final = lazy_pattern("[,，:：、]")
_CHANGE: Final = lazy_pattern(
    "(?:现在|目前|已经|已)?(?:改到|改在|改为|改成|改用|改由|推迟到|提前到|延到|延期到|调到|调整为|调整到|换成|换到|搬到|移到|变成|变为|"
    "更新为|涨到|涨到了|降到|降到了|增加到|减少到|升到)了?"
)
"""Verbs that say that something changed to what follows."""
_MARKER: Final = lazy_pattern("现在|目前|如今|新的|已经|改|不再")
_IS: Final = lazy_pattern("(?:定在|定于|订在|安排在|位于|设在|约在|放在|是在|就是|将在|会在|是|为|在|于|到|用|由)")
_NEGATION: Final = lazy_pattern("不再|不是|没有|不|没|无法|别")
_STATEMENTS_ZH_SMALL: Final = lazy_pattern("现在|目前|如今|我们|咱们|大家|这个|那个|[了的地得呢吧啊呀哦也都就还才又很]")
_STATEMENTS_ZH_STATE: Final = lazy_pattern(
    "(?:\\x01|住|叫|姓|有|需要|需|共|要|收|卖|花|达|至|多|号|约|只|能坐|可坐|容纳|持续|每[天周月年次人]|价|重|长|高)$"
)
"""The end of a text before a value that holds until it changes."""
_VALUE_START: Final = lazy_pattern("[\\d〇零一二三四五六七八九十百千万两半几上下周星礼早晚中明后今¥￥$€]")
_SHARED: Final = lazy_pattern(
    "(?:(?:[\\d〇零一二三四五六七八九十百千万两半.:-]+[年月日号点分]?)+|周|星期|礼拜|[上下]午|[早晚]上)$"
)
"""The beginning that two values may share."""
_SHORTEST: Final = 2
"""Characters of a subject."""
_LONGEST_VALUE: Final = 12


@dataclass(frozen=True, slots=True)
class ChineseClause:
    """One clause, with the verbs of being and changing as one sign."""

    text: str
    changes: bool
    negated: bool


def chinese_clauses(text: str) -> tuple[ChineseClause, ...]:
    """Return the clauses of a text that state something."""
    found: list[ChineseClause] = []
    for sentence in _STATEMENTS_ZH_SENTENCE.split(text):
        stripped = sentence.strip()
        if stripped.endswith(("?", "？", "吗。", "吗")):
            continue
        parts = (part.strip() for part in _STATEMENTS_ZH_CLAUSE.split(stripped.rstrip("。.!！;；")))
        found += [_statements_zh_clause(part) for part in parts if part]
    return tuple(found)


def is_chinese_update(older: ChineseClause, newer: ChineseClause) -> bool:
    """Whether a clause states again what an older one does, but for one value."""
    one, other = older.text, newer.text
    if newer.changes:
        # What it changed from may have been said without a verb: 报告六月一日截止.
        one, other = one.replace("\x01", ""), other.replace("\x01", "")
    if older.negated != newer.negated:
        return one == other and len(one) > _SHORTEST
    if one == other or older.negated:
        return False
    head = _common(one, other)
    tail = _common(one[head:][::-1], other[head:][::-1])
    gone, come = one[head : len(one) - tail], other[head : len(other) - tail]
    if not gone or not come or max(len(gone), len(come)) > _LONGEST_VALUE or "\x01" in gone + come:
        return False
    return _is_value(one[:head], gone, come, changes=newer.changes)


def _is_value(head: str, gone: str, come: str, *, changes: bool) -> bool:
    """Whether what differs is a value of what stands before it."""
    # Values may share their first signs, as 五月一日 and 五月八日 do.
    before = _SHARED.sub("", head)
    subject = before.replace("\x01", "")
    if len(subject) < _SHORTEST:
        return False
    if _STATEMENTS_ZH_STATE.search(before):
        return True
    is_number = all(_VALUE_START.match(value) or before != head for value in (gone, come))
    return is_number and changes


def _statements_zh_clause(text: str) -> ChineseClause:
    changed = _CHANGE.search(text)
    plain = _CHANGE.sub("\x01", text)
    negated = bool(_NEGATION.search(plain))
    plain = _STATEMENTS_ZH_SMALL.sub("", _NEGATION.sub("", plain).replace(" ", ""))
    return ChineseClause(
        text=re.sub("\x01+", "\x01", _IS.sub("\x01", plain)),
        changes=bool(changed) or bool(_MARKER.search(text)),
        negated=negated,
    )


def _common(one: str, other: str) -> int:
    """Return the number of characters that two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_LONGEST: Final = 1000
"""Characters of a text that are looked at."""


def is_update(older: str, newer: str) -> bool:
    """Whether a text states again what an older one does, but for one value."""
    one, other = _analysed(older[:_LONGEST]), _analysed(newer[:_LONGEST])
    return (
        older != newer
        and one.unspaced == other.unspaced
        and (
            any(is_chinese_update(a, b) for a in one.chinese for b in other.chinese)
            or any(is_english_update(a, b) for a in one.english for b in other.english)
        )
    )


@dataclass(frozen=True, slots=True)
class _Analysed:
    """A text's clauses, of one of the languages."""

    unspaced: bool
    chinese: tuple[ChineseClause, ...] = ()
    english: tuple[EnglishClause, ...] = ()


@lru_cache(maxsize=4096)
def _analysed(text: str) -> _Analysed:
    if mostly_unspaced(text):
        return _Analysed(unspaced=True, chinese=chinese_clauses(text))
    return _Analysed(unspaced=False, english=english_clauses(text))
