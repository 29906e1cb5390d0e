"""DevAll's (ChatDev 2) score of how much two texts have in common."""

from __future__ import annotations

from rapidfuzz.distance import LCSseq


def text_overlap(query: str, content: str) -> float:
    """Score from 0 to 1: 0.4 Jaccard of the words, 0.3 longest common subsequence, 0.2 keyword recall, 0.1 length.

    Words are split at white space, as DevAll does; the subsequence's length is divided by the longer text's.
    """
    query, content = query.lower(), content.lower()
    if not query or not content:
        return 0.0
    asked, there = set(query.split()), set(content.split())
    union = asked | there
    jaccard = len(asked & there) / len(union) if union else 0.0
    subsequence = LCSseq.similarity(query, content) / max(len(query), len(content))
    keywords = {word for word in asked if len(word) >= 2}
    recall = len(keywords & there) / len(keywords) if keywords else 0.0
    return min(0.4 * jaccard + 0.3 * subsequence + 0.2 * recall + 0.1 * _length_factor(len(content) / len(query)), 1.0)


def _length_factor(ratio: float) -> float:
    """1 for a content of half to twice the query's length, less outside."""
    if ratio < 0.5:
        return ratio / 0.5
    return 1.0 if ratio <= 2.0 else max(0.1, 2.0 / ratio)
