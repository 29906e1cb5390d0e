"""The part of a message that asks something.

Agents search with what their users write, and beside a question that is often small talk: two lines of it before the
questions of LoCoMo cost 13 points of recall@10, on FriendsQA 31. Only English and Chinese are told apart; a message
whose question refers to the rest of it ("Where did she go?"), or shares words with it, counts as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Final

from devmem.text.analysis import mostly_unspaced, query_terms, split_sentences, term_weight
from devmem.text.patterns import lazy_pattern, named_pattern

REST_SHARE: Final = 0.1
"""Weight of a word outside the sentences that ask. With 0.2, questions behind small talk lose 0.4 points of recall@10
on LoCoMo; with 0, what is told beside a question could not decide between equals."""

_LONGEST: Final = 1000
"""Characters: a longer text is an article, a log or another agent's answer, and a question in it is a part of it."""
_ABBREVIATED: Final = named_pattern("cues.txt", "abbreviated")
_ASKS: Final = named_pattern("cues.txt", "asks")
_BEGINS_ASKING: Final = named_pattern("cues.txt", "begins_asking")
_IS_READ: Final = named_pattern("cues.txt", "is_read")
"""English or Chinese: of these two the words are known that refer to what was said before."""
_IS_JAPANESE: Final = lazy_pattern(r"[\u3040-\u30ff]")
_ASIDE: Final = named_pattern("cues.txt", "aside")
"""A change of the subject: the question follows."""
_THING_BEFORE: Final = named_pattern("cues.txt", "thing_before")
_PERSON_BEFORE: Final = named_pattern("cues.txt", "person_before")
_PERSON_NAMED: Final = named_pattern("cues.txt", "person_named", 0)
"""Somebody whom a pronoun behind it may mean."""
_DEPENDS: Final = named_pattern("cues.txt", "depends")
"""A request for advice depends on what is told beside it, and so does an offer at the end of an answer."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """The text of a query, in two parts."""

    asked: str
    """The sentences that ask something; the whole text where none can be told apart from the others."""
    rest: str = ""
    """The other sentences."""

    @classmethod
    def of(cls, text: str, *, focus: bool = True) -> QueryText:
        """Return a text in its two parts; without `focus`, all of it asks."""
        return _split(text) if focus else cls(text)

    def term_weights(self) -> dict[str, float]:
        """Return the terms to search for, each with its weight, its rarity aside: from 0 to 1."""
        found = {term: REST_SHARE * term_weight(term) for term in query_terms(self.rest)} if self.rest else {}
        return found | {term: term_weight(term) for term in query_terms(self.asked)}


@lru_cache(maxsize=16)
def _split(text: str) -> QueryText:
    if len(text) > _LONGEST:
        return QueryText(text)
    sentences = _sentences(text)
    asking = [_ASKS.search(sentence) is not None for sentence in sentences]
    asked, rest, is_aside = _parts(sentences, asking)
    # "When do I land?" is about the flight that was told of: a question needs two words of its own.
    is_specific = is_aside or sum(map(_words_in, query_terms(asked), repeat(0.25))) >= 2
    stands_alone = _is_told(asked) and _is_told(rest) and _stands_alone(asked, rest) and is_specific
    return QueryText(asked, rest) if stands_alone else QueryText(text)


def asks_something(text: str) -> bool:
    """Whether a sentence of a text asks something, with or without a question mark."""
    return any(_ASKS.search(sentence) or _BEGINS_ASKING.search(sentence) for sentence in _sentences(text))


def words_told(text: str) -> float:
    """Return the number of words that a text is about; a pair of characters of a script without spaces counts half."""
    return sum(map(_words_in, query_terms(text), repeat(0.5)))


def _sentences(text: str) -> list[str]:
    """Split a text into sentences, not behind abbreviations; one without letters belongs to the one before."""
    found: list[str] = []
    for piece in split_sentences(text):
        if found and (not _is_told(piece) or _ABBREVIATED.search(found[-1])):
            found[-1] += piece
        else:
            found.append(piece)
    return found


def _parts(sentences: Sequence[str], asking: Sequence[bool]) -> tuple[str, str, bool]:
    """Return what asks, the rest, and whether the subject changes between them; before that, nothing asks."""
    asked, rest, is_aside = "", "", False
    for sentence, asks in zip(sentences, asking, strict=True):
        if not asks:
            rest += sentence
            continue
        asides = (aside.end() for aside in _ASIDE.finditer(sentence))
        start = max((end for end in asides if _is_told(sentence[end:])), default=0)
        if start:
            asked, rest, is_aside = "", rest + asked + sentence[:start], True
        asked += sentence[start:]
    return asked.strip(), rest.strip(), is_aside


def _is_told(text: str) -> bool:
    return any(map(str.isalnum, text))


def _stands_alone(asked: str, rest: str) -> bool:
    """Whether a question neither refers to the rest of its message nor shares words with it."""
    needs_more = (_IS_JAPANESE, _THING_BEFORE, _DEPENDS)
    if not _IS_READ.search(asked + rest) or any(pattern.search(asked) for pattern in needs_more):
        return False
    person = _PERSON_BEFORE.search(asked)
    if person is not None and not _PERSON_NAMED.search(asked, 0, person.start()):
        return False
    # Two characters of a script without spaces are shared by chance, three are two pairs.
    return sum(map(_words_in, set(query_terms(asked)).intersection(query_terms(rest)), repeat(0.5))) < 1


def _words_in(term: str, share: float) -> float:
    """Return 1 for a word, a share of one for a pair of characters of a script without spaces, and 0 for a single."""
    if len(term) == 1:
        return 0.0
    return share if mostly_unspaced(term) else 1.0
