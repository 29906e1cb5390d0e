"""Whether two texts state the same of one subject with another value: a number, a date, a name, a negation.

No model is asked. A text is cut into clauses, and of each clause the values are told from the frame, which are the
words around them. Two clauses are related when their frames are the same and exactly one value differs; where the newer
text says that something changed ("now", "moved to", "改到"), one frame may say more than the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from devmem.text.analysis import mostly_unspaced
from devmem.text.statements_en import EnglishClause, english_clauses, is_english_update
from devmem.text.statements_zh import ChineseClause, chinese_clauses, is_chinese_update

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
