"""Clauses of Chinese texts, and whether one states again what another does, but for one value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from devmem.text.patterns import lazy_pattern

_SENTENCE: Final = lazy_pattern("(?<=[。!?;！？；])|\\n+")
_CLAUSE: Final = lazy_pattern("[,，:：、]")
_CHANGE: Final = lazy_pattern(
    "(?:现在|目前|已经|已)?(?:改到|改在|改为|改成|改用|改由|推迟到|提前到|延到|延期到|调到|调整为|调整到|换成|换到|搬到|移到|变成|变为|"
    "更新为|涨到|涨到了|降到|降到了|增加到|减少到|升到)了?"
)
"""Verbs that say that something changed to what follows."""
_MARKER: Final = lazy_pattern("现在|目前|如今|新的|已经|改|不再")
_IS: Final = lazy_pattern("(?:定在|定于|订在|安排在|位于|设在|约在|放在|是在|就是|将在|会在|是|为|在|于|到|用|由)")
_NEGATION: Final = lazy_pattern("不再|不是|没有|不|没|无法|别")
_SMALL: Final = lazy_pattern("现在|目前|如今|我们|咱们|大家|这个|那个|[了的地得呢吧啊呀哦也都就还才又很]")
_STATE: Final = lazy_pattern(
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
    for sentence in _SENTENCE.split(text):
        stripped = sentence.strip()
        if stripped.endswith(("?", "？", "吗。", "吗")):
            continue
        parts = (part.strip() for part in _CLAUSE.split(stripped.rstrip("。.!！;；")))
        found += [_clause(part) for part in parts if part]
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
    if _STATE.search(before):
        return True
    is_number = all(_VALUE_START.match(value) or before != head for value in (gone, come))
    return is_number and changes


def _clause(text: str) -> ChineseClause:
    changed = _CHANGE.search(text)
    plain = _CHANGE.sub("\x01", text)
    negated = bool(_NEGATION.search(plain))
    plain = _SMALL.sub("", _NEGATION.sub("", plain).replace(" ", ""))
    return ChineseClause(
        text=re.sub("\x01+", "\x01", _IS.sub("\x01", plain)),
        changes=bool(changed) or bool(_MARKER.search(text)),
        negated=negated,
    )


def _common(one: str, other: str) -> int:
    """Return the number of characters that two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
