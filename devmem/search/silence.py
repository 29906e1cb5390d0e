"""Whether anything that a search found has to do with what was said.

A prompt is better off without memories than with those that only happen to be the nearest: "ok", "go on" and "How do
I exit vim?" have a nearest item in any store. What tells them from messages that memory helps with is the best cosine
in the store (docs/retrieval.md has the figures); scores do not, as the words of a short message are found in any talk.
"""

from __future__ import annotations

from typing import Final

from devmem.model.results import Hit, SearchReport
from devmem.text.analysis import STOP_WORDS, query_terms, terms
from devmem.text.patterns import named_pattern
from devmem.text.query_text import asks_something

_LEAST_SCORE: Final = 0.6
"""Best score from which a question is about something stored although no item is near to it."""
_LOW_SCORE: Final = 0.4
_DOUBT: Final = 0.09
"""Best score below which a question has to be nearer to an item, and by how much: the words of a task of the same field
("What causes the northern lights?" where whales are talked of) are found by chance or not at all."""
_LEAST_OF_BEST: Final = 0.65
"""Share of the best score from which a hit answers a question although it is not near to it."""
_LEAST_SHARE: Final = 0.3
_LEAST_WORDS: Final = 3
"""Share of a message's content words, and number of those of a long one, that a hit has at least without vectors."""
_LONGEST: Final = 80
"""Characters of a message that may say nothing."""

_FILLER: Final = named_pattern("small_talk.txt", "filler")
"""Only phrases that any talk has, in English and Chinese."""


_OWN: Final = named_pattern("small_talk.txt", "own")
"""The asker's own things, or what was said before: "my", "did we", not "how do I" and "帮我"."""


def says_nothing(text: str) -> bool:
    """Whether a message is only greetings, thanks and the like: "ok, thanks", "go on", "好的"."""
    return len(text) <= _LONGEST and _FILLER.fullmatch(text) is not None


def relevant_hits(text: str, report: SearchReport, least_similarity: float | None) -> tuple[Hit, ...]:
    """Return the hits that have to do with a message; none where nothing in the store has.

    Beside what answers a question, its other hits are left out where neither their score nor their cosine is near.

    Args:
        text: the message.
        report: of the search for it.
        least_similarity: cosine of the store's model below which even the nearest item has nothing to do with a
            message; None where it is not known, so that only a message that says nothing is not answered.
    """
    if report.asks_for_period:
        return report.hits
    if says_nothing(text):
        return ()
    if report.best_similarity is None:
        return report.hits if _has_words(text, report) else ()
    if least_similarity is None:
        return report.hits
    asks, best = asks_something(text), report.best_score or 0.0
    # What somebody asks about themselves is in no other place, and told in other words: "How do I like your answers?".
    is_answered = asks and (best >= _LEAST_SCORE or _OWN.search(text) is not None)
    wanted = least_similarity + (_DOUBT if asks and best < _LOW_SCORE else 0)
    if report.best_similarity < wanted and not is_answered:
        return ()
    far = {hit.item.id for hit in report.hits if hit.similarity is not None and hit.similarity < least_similarity}
    return tuple(hit for hit in report.hits if not asks or hit.score >= _LEAST_OF_BEST * best or hit.item.id not in far)


def _has_words(text: str, report: SearchReport) -> bool:
    """Whether one of the best hits has enough of a message's content words."""
    asked = {term for term in query_terms(text) if term not in STOP_WORDS}
    wanted = min(_LEAST_SHARE * len(asked), _LEAST_WORDS)
    return not asked or any(len(asked.intersection(terms(hit.item.full_text()))) >= wanted for hit in report.hits)
