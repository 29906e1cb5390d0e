"""Selection of hits among scored candidates: without near-duplicates, and diverse where that is wanted."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.fields import field_texts
from devmem.model.items import MemoryContentSnapshot, MemoryItem, Vector, agent_of, content_hash
from devmem.model.results import Hit, RejectedCandidate, RejectReason
from devmem.search.candidates import CandidateSet
from devmem.search.indexes.columns import Rows, best_first, group_starts
from devmem.search.indexes.passages import named_passages
from devmem.search.query import Weights, fuse
from devmem.search.score import ScoreBreakdown
from devmem.search.source import Column, IndexesReader, Places, QueryContext
from devmem.search.token_matching import MaxSimScorer
from devmem.text.analysis import terms
from devmem.text.patterns import lazy_pattern

_DAY: Final = 86_400
# A word continues after a hyphen, a dot or an apostrophe, as for full-text search.
_INITIAL: Final = lazy_pattern(r"(?<!\w)(?<!\w[.\-'])[b-su-zB-SU-Z0-9_]")
_START: Final = 120
"""Number of characters that hold ten words in most texts."""
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
    """Return a key that is equal for items that say the same: agent, speaker, day of the event, words but articles.

    Punctuation, capitals and inflection of the summary do not count; numbers, names, pronouns, negations, symbols and
    the order of words do, and so does everything that snapshots and indexed fields have beside it: a summary may be
    only the start.
    """
    words, signs = _words(item.content_summary)
    day = None if item.event_time is None else item.event_time // _DAY
    speaker = item.metadata.get("speaker")
    who = (item.scope.user, agent_of(item), speaker if isinstance(speaker, str) else None)
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
    # The start of most texts has as many words; a search in all of a long one takes longer than the rest.
    found = _INITIAL.findall(text, 0, _START)
    if len(found) < _INITIALS and len(text) > _START:
        found = [letter[0] for letter in islice(_INITIAL.finditer(text), _INITIALS)]
    return "".join(found[:_INITIALS]).lower()


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


def best_passages(context: QueryContext, rows: Rows, matches: MaxSimScorer | None) -> Places:
    """Return the place of each item's best passage among its own, from 0; -1 for an item of one passage.

    The best is that of late interaction, and without it the best by words and meaning.
    """
    found = np.full(len(rows), -1, dtype=np.int64)
    if context.indexes.passage_map.singles:
        return found
    passages, owner = context.indexes.passage_map.passages_of(rows)
    if len(passages) == len(rows):
        return found
    score = fuse(*context.signals(passages), Weights())
    if matches is not None:
        score += np.isin(passages, matches.passages(rows))
    order = np.lexsort((-score, owner))
    best = order[group_starts(owner[order])]
    first = group_starts(owner)
    found[owner[best]] = best - first
    found[owner[first][np.diff(np.append(first, len(owner))) == 1]] = -1
    return found


def snippet_of(item: MemoryItem, place: int) -> tuple[str | None, str | None]:
    """Return the text of a passage that the summary lacks, and the indexed field that the passage is of.

    The text is None when the summary has all of it, or the item has one passage (-1); the field when it is no field's.
    """
    if place < 0 and not item.indexed_fields:
        return None, None
    passages = named_passages(item)
    place = max(place, 0)
    if place not in range(len(passages)):
        return None, None
    found = passages[place]
    passage, summary = " ".join(found.text.split()), " ".join(item.content_summary.split())
    if passage in summary:
        return None, found.field
    # A passage may continue a summary that was cut.
    return passage.removeprefix(summary.removesuffix("…").rstrip()).lstrip(), found.field


_LEAST_READ: Final = 4
"""Minimum number of items that are read at once to replace near-duplicates."""
_DIVERSE_FROM: Final = 4
"""Factor by which more hits are found than are wanted when diverse ones are selected among them."""
_SHOWN: Final = 10
"""Maximum number of candidates beyond the limit that a report names."""


class HitSelector:
    """Selects hits among scored candidates."""

    def __init__(
        self,
        context: QueryContext,
        candidates: CandidateSet,
        scores: Column,
        breakdown: ScoreBreakdown | None,
        matches: MaxSimScorer | None,
    ) -> None:
        self._context, self._query, self._source = context, context.query, context.source
        self._candidates, self._scores, self._breakdown, self._matches = candidates, scores, breakdown, matches
        self._items: dict[int, MemoryItem] = {}
        self._selected: frozenset[int] = frozenset()
        self._same: dict[int, list[str]] = {}
        """Ids of the candidates that say the same as a better one."""
        self.cut: list[RejectedCandidate] = []
        """Candidates that were cut, and why, in the order of their scores."""
        # The newer item, of the higher row, comes first among equals.
        order = best_first(scores)
        least = -np.inf if self._query.min_relevance is None else self._query.min_relevance
        self._is_relevant = scores >= least
        self._order = order[self._is_relevant[order]].tolist()
        self._irrelevant = order[~self._is_relevant[order]].tolist()

    def hits(self) -> list[Hit]:
        """Return the best hits, best first."""
        query, limit = self._query, self._query.limit
        diverse = query.weights is None and query.ranking.diversity > 0
        wanted = limit * _DIVERSE_FROM if diverse else limit
        chosen = self._select(self._order, wanted)
        if diverse:
            chosen = self._diverse(chosen, limit)
        self._selected = frozenset(chosen)
        return self._hits(chosen)

    def best_of_each(self, groups: Sequence[Sequence[int]], limit: int) -> list[list[Hit]]:
        """Return the best hits of each group of candidates, which are ordered best first."""
        relevant = [[at for at in places if self._is_relevant[at]] for places in groups]
        self._fetch([at for places in relevant for at in places[:limit]])
        return [self._hits(self._select(places, limit)) for places in relevant]

    def explain_rest(self) -> None:
        """Add the best candidates beyond the limit to `cut`."""
        known = {one.item_id for one in self.cut}
        first = self._order[: len(self._selected) + len(known) + _SHOWN]
        rest = [at for at in first if at not in self._selected]
        self._fetch(rest)
        left = [at for at in rest if self._item(at).id not in known]
        self.cut += [self._cut(at, RejectReason.LIMIT) for at in left[:_SHOWN]]
        self._fetch(self._irrelevant[:_SHOWN])
        self.cut += [self._cut(at, RejectReason.RELEVANCE) for at in self._irrelevant[:_SHOWN]]

    def _select(self, order: Sequence[int], wanted: int) -> list[int]:
        collapse = self._query.weights is None and self._query.ranking.collapse
        return self._without_duplicates(order, wanted) if collapse else list(order[:wanted])

    def _without_duplicates(self, order: Sequence[int], wanted: int) -> list[int]:
        chosen: list[int] = []
        duplicates = _NearDuplicates(self._item)
        read = 0
        while len(chosen) < wanted and read < len(order):
            part = order[read : read + max(wanted - len(chosen), _LEAST_READ if read else 0)]
            self._fetch(part)
            for at in part[: wanted - len(chosen)]:
                read += 1
                first = duplicates.first(at)
                if first == at:
                    chosen.append(at)
                else:
                    self._same.setdefault(first, []).append(self._item(at).id)
                    self.cut.append(self._cut(at, RejectReason.NEAR_DUPLICATE, self._item(first).id))
        return chosen

    def _diverse(self, among: list[int], limit: int) -> list[int]:
        vectors = _vectors(self._context.indexes, self._candidates.rows[among])
        places = diversified(self._scores[among], vectors, limit, self._query.ranking.diversity)
        chosen = [among[place] for place in places]
        worst = min(self._scores[chosen], default=0.0)
        cut = [at for at in among if at not in chosen and self._scores[at] > worst]
        self.cut += [self._cut(at, RejectReason.DIVERSITY) for at in cut]
        return chosen

    def _fetch(self, places: Sequence[int]) -> None:
        rows: list[int] = self._candidates.rows[list(places)].tolist()
        missing = [row for row in rows if row not in self._items]
        self._items |= self._source.items(missing)

    def _item(self, at: int) -> MemoryItem:
        row = int(self._candidates.rows[at])
        if row not in self._items:
            self._fetch([at])
        return self._items[row]

    def _hits(self, places: list[int]) -> list[Hit]:
        self._fetch(places)
        passages = best_passages(self._context, self._candidates.rows[places], self._matches)
        parts = self._breakdown.parts_of(places) if self._breakdown else [{} for _ in places]
        return [self._hit(*each) for each in zip(places, passages.tolist(), parts, strict=True)]

    def _hit(self, at: int, passage: int, parts: Mapping[str, float]) -> Hit:
        breakdown, item = self._breakdown, self._item(at)
        snippet, field = snippet_of(item, passage)
        return Hit(
            item=item,
            score=float(self._scores[at]),
            similarity=_known(self._candidates.similarity[at]),
            lexical=float(self._candidates.lexical[at]),
            recency=float(breakdown.features.recency[at]) if breakdown else None,
            rerank=_known(breakdown.late_interaction[at]) if breakdown else None,
            parts=parts,
            passage=snippet,
            field=field,
            same_as=tuple(self._same.get(at, ())),
        )

    def _cut(self, at: int, reason: RejectReason, like: str | None = None) -> RejectedCandidate:
        return RejectedCandidate(
            item_id=self._item(at).id,
            reason=reason,
            score=float(self._scores[at]),
            similarity=_known(self._candidates.similarity[at]),
            like=like,
        )


class _NearDuplicates:
    """Finds the first of several candidates that say the same.

    Only items whose words begin with the same letters are compared word by word, which takes time.
    """

    def __init__(self, item: Callable[[int], MemoryItem]) -> None:
        self._item = item
        self._by_initials: dict[str | None, int | None] = {}
        """The only candidate with these initials; None when there are more, which are in `_by_words`."""
        self._by_words: dict[object, int] = {}

    def first(self, at: int) -> int:
        """Return the first candidate that says the same, which may be this one."""
        letters = initials(self._item(at))
        if letters not in self._by_initials:
            self._by_initials[letters] = at
            return at
        if (other := self._by_initials[letters]) is not None:
            self._by_initials[letters] = None
            self._by_words[sameness(self._item(other))] = other
        return self._by_words.setdefault(sameness(self._item(at)), at)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _vectors(indexes: IndexesReader, rows: NDArray[np.int64]) -> Vector:
    """Return each row's first vector; zeros for a row that has none."""
    if indexes.vectors is None:
        return np.zeros((len(rows), 1), dtype=np.float32)
    passages, owner = indexes.passage_map.passages_of(rows)
    first = group_starts(owner)
    found = np.zeros((len(rows), indexes.vectors.dimension), dtype=np.float32)
    found[owner[first]] = indexes.vectors.gather(passages[first])
    return found
