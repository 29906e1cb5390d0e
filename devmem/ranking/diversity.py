"""Near-duplicates, and maximal marginal relevance."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.indexed_fields import field_texts
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Vector, content_hash
from devmem.text.analysis import terms
from devmem.text.patterns import lazy_pattern

_DAY: Final = 86_400
# A word continues after a hyphen, a dot or an apostrophe, as for full-text search.
_INITIAL: Final = lazy_pattern(r"(?<!\w)(?<!\w[.\-'])[b-su-zB-SU-Z0-9_]")
_INITIALS: Final = 10
"""Number of words that tell most texts apart."""
_PLAIN: Final = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})
_NEGATED: Final = lazy_pattern(r"n't\b", re.IGNORECASE)
_FOREIGN_MARK: Final = lazy_pattern(r"[^\w\x00-\x7f]")
_SIGN: Final = lazy_pattern(r"'(?:d|ll|ve|re)\b|(?<![\w-])-(?=\d)|(?<=\w )A\b|[#%+<=>$€£]|[^\w\s\x00-\x7f]")
"""Signs that full-text search ignores although they make a difference."""
_SMALL: Final = frozenset({"a", "an", "the"})
"""Not all stop words: "our tea" is not "their tea"."""


def sameness(item: MemoryItem) -> tuple[object, ...]:
    """Return a key that is equal for items that say the same: speaker, day of the event, every word but articles.

    Punctuation, capitals and inflection of the summary do not count; numbers, names, pronouns, negations, symbols and
    the order of words do, and so does everything that snapshots and indexed fields have beside it: a summary may be
    only the start.
    """
    words, signs = _words(item.content_summary)
    day = None if item.event_time is None else item.event_time // _DAY
    speaker = item.metadata.get("speaker")
    who = (item.scope.user, item.scope.agent, speaker if isinstance(speaker, str) else None)
    # A text without words, such as an emoji, equals only itself.
    said = words or item.content_summary.strip()
    return who, day, said, signs, _beside(item, item.input_snapshot, item.output_snapshot)


def initials(item: MemoryItem) -> str | None:
    """Return a coarser key than `sameness` that takes a fraction of the time: items of the same `sameness` share it.

    It is made of the first letters of the first words, which no inflection changes, without those that an article
    begins with; None for words of another alphabet.
    """
    text = _plain(item.content_summary)
    if not text.isascii():
        text = _FOREIGN_MARK.sub(" ", unicodedata.normalize("NFKC", text))
    if not text.isascii():
        return None
    return "".join(found[0] for found in islice(_INITIAL.finditer(text), _INITIALS)).lower()


def _plain(summary: str) -> str:
    """Replace typographic marks by ASCII and write negations out: full-text search drops the end of "isn't"."""
    if summary.isascii():
        return _NEGATED.sub(" not", summary) if "'" in summary else summary
    return _NEGATED.sub(" not", summary.translate(_PLAIN))


@lru_cache(maxsize=1 << 12)
def _words(summary: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that count, and the signs."""
    plain = _plain(summary)
    said = tuple(terms(plain))
    signs = tuple(sign.lower() for sign in _SIGN.findall(plain) if not _is_punctuation(sign))
    return tuple(term for term in said if term not in _SMALL) or said, signs


def _is_punctuation(sign: str) -> bool:
    return len(sign) == 1 and not sign.isascii() and unicodedata.category(sign).startswith(("P", "C", "Z", "M"))


def _beside(item: MemoryItem, *snapshots: MemoryContentSnapshot | None) -> tuple[str, ...]:
    """Return what snapshots and indexed fields have beyond the summary: words, and a digest of attachments."""
    found: list[str] = []
    for snapshot in snapshots:
        if snapshot is not None and snapshot.text.strip() not in item.content_summary:
            found += snapshot.text.casefold().split()
        if snapshot is not None and snapshot.has_multimodal():
            found.append(content_hash("", replace(snapshot, text="")))
    for each in field_texts(item):
        if each.text not in item.content_summary:
            found += each.text.casefold().split()
    return tuple(found)


def diversified(scores: NDArray[np.float64], vectors: Vector, limit: int, diversity: float) -> list[int]:
    """Choose candidates one by one, by score and by dissimilarity to those already chosen.

    Maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), over scores normalized to 0..1.

    Args:
        scores: shape (n,).
        vectors: of unit length, shape (n, dimension); a row of zeros is similar to none.
        limit: maximum number of candidates.
        diversity: 0 chooses by score alone, 1 by difference alone.

    Returns:
        Places of the chosen, in the order in which they were chosen.
    """
    spread = float(np.ptp(scores)) if len(scores) else 0.0
    value = (scores - scores.min()) / spread if spread > 0 else np.ones_like(scores)
    likeness = np.zeros(len(scores))
    left = np.ones(len(scores), dtype=np.bool_)
    chosen: list[int] = []
    while len(chosen) < limit and left.any():
        worth = np.where(left, (1 - diversity) * value - diversity * likeness, -np.inf)
        best = int(np.argmax(worth))
        chosen.append(best)
        left[best] = False
        likeness = np.maximum(likeness, vectors @ vectors[best])
    return chosen
