"""Misspelled words of a question, and the words that may be meant.

These are one edit away: a letter left out, added, replaced, or two letters swapped (F. J. Damerau, "A Technique for
Computer Detection and Correction of Spelling Errors", 1964), except of the first letter, which writers seldom miss.
How likely an edit is follows the noisy channel of Kernighan, Church and Gale, "A Spelling Correction Program Based on a
Noisy Channel Model" (1990): a word has few places to leave a letter out, and 25 wrong letters for each place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import chain
from string import ascii_lowercase
from typing import Final, NamedTuple, TypeAlias

from devmem.text.analysis import STOP_WORDS, stem
from devmem.text.patterns import lazy_pattern

_LEAST_MEANT: Final = 5
"""Letters of the shortest word that may be meant; shorter ones have too many neighbours."""
_LEAST_REPLACED: Final = 6
"""The same where a letter is wrong: too many words of five letters differ in one, as "vegan" and "Vegas"."""
_MOST_WORDS: Final = 3
"""A text with more such words is of another language, or no question."""
_LONGEST: Final = 1000
"""Characters: a longer text is an article or a log, whose words are looked up unchanged."""
_BESIDE: Final = r"\w`@#/\\\-\u00ad\u0300-\u036f\u200b-\u200d\u2060"
"""Of a compound, code, an address or a path, or of a word with combining accents or invisible characters."""
_WORD: Final = lazy_pattern(rf"(?<![{_BESIDE}.'’:&=$<])[a-z]{{4,24}}(?![{_BESIDE}=(]|[.:'’]\w)")
"""A word in small letters that is no part of a compound, of code, a path, or an address."""

_OMITTED: Final = 25.0
"""Likelihood of leaving out a certain letter, relative to that of another certain letter in its place."""
_SLIPPED: Final = 10.0
"""That of swapping two letters, or doubling one."""
_OTHER: Final = 1.0
"""That of a wrong letter, in the place of another or beside it."""

_ENDINGS: Final = tuple(
    "s es ed d en ing er ers ly y ness less able ment ments est ist ists al ally ation ations".split()
)
_BEGINNINGS: Final = ("un", "re", "mis", "dis", "over", "under", "non", "pre", "de", "en", "sub", "inter", "multi")
_LEAST_BASE: Final = 4
_SOFTWARE: Final = frozenset(
    """args browse compat docs encode decode glob hover impl indent init iter json latent linter macro macros mins mixin
    mods param params parse parsed parser parses prepend prod refs schema schemas stdio struct temp throughput util
    utils""".split()
)
"""Words of software, which vocabularies of everyday words lack."""
_RIGHT: Final = STOP_WORDS | _SOFTWARE
_LEAST_PART, _LEAST_COMPOUND = 3, 7
"""Letters of each of the two words of a compound, and of both: shorter ones are misspelled words by chance."""

Edit: TypeAlias = tuple[str, float]
"""A word, and how likely it was meant."""


class Meant(NamedTuple):
    """A word that may be meant by a misspelled one."""

    word: str
    term: str
    """Its stem, which full-text search matches."""
    likelihood: float


def suspects(text: str, vocabulary: Container[str] | None) -> list[str]:
    """Return the words of a text that are misspelled if no memory has them.

    Args:
        text: of a question.
        vocabulary: known words in small letters, which are not misspelled; None where none are known.
    """
    words = dict.fromkeys(_WORD.findall(text)) if len(text) <= _LONGEST else ()
    return [word for word in words if word not in _RIGHT and (vocabulary is None or word not in vocabulary)]


def meant_by(words: list[str], vocabulary: Container[str] | None) -> dict[str, list[Meant]]:
    """Return what may be meant by each of the words of a text that no memory has; nothing where these are many."""
    if len(words) > _MOST_WORDS:
        return {}
    return {word: _unchecked(word) if vocabulary is None else _known(word, vocabulary) for word in words}


def corrected(text: str, by_word: Mapping[str, str]) -> str:
    """Return a text with its misspelled words replaced."""
    return _WORD.sub(lambda match: by_word.get(match[0], match[0]), text) if by_word else text


def _known(word: str, vocabulary: Container[str]) -> list[Meant]:
    """Return the words of a vocabulary one edit away.

    Of a word that is formed of known ones, as "dialing" and "backend", only those that are one slip away.
    """
    found: dict[str, float] = {}
    for other, likelihood in _slips(word) if _is_formed(word, vocabulary) else chain(_slips(word), _mistakes(word)):
        if other in vocabulary and len(other) >= _least(likelihood) and other not in STOP_WORDS:
            found[other] = max(likelihood, found.get(other, 0.0))
    return [Meant(other, stem(other), likelihood) for other, likelihood in found.items()]


def _unchecked(word: str) -> list[Meant]:
    """Return words one slip away, whatever they are, that end alike: too many others are words themselves."""
    found: dict[str, Meant] = {}
    ending = _ending(word)
    for other, likelihood in _slips(word) if ending is not None else ():
        if len(other) >= _LEAST_MEANT and _ending(other) == ending and other not in STOP_WORDS:
            found[other] = Meant(other, stem(other), likelihood)
    return list(found.values())


def _ending(word: str) -> str | None:
    """Return what stemming takes off a word; None where it changes the rest."""
    base = stem(word)
    return word.removeprefix(base) if word.startswith(base) else None


def _least(likelihood: float) -> int:
    return _LEAST_REPLACED if likelihood == _OTHER else _LEAST_MEANT


def _slips(word: str) -> Iterator[Edit]:
    """Yield words that start with the same letter and are one slip away; some come twice."""
    for at in range(1, len(word)):
        before, letter, after = word[:at], word[at], word[at + 1 :]
        if after and letter != after[0]:
            yield before + after[0] + letter + after[1:], _SLIPPED
        if letter == before[-1]:
            yield before + after, _SLIPPED


def _mistakes(word: str) -> Iterator[Edit]:
    """Yield words that start with the same letter and are another edit away; some come twice."""
    for at in range(1, len(word)):
        before, letter, after = word[:at], word[at], word[at + 1 :]
        if letter != before[-1]:
            yield before + after, _OTHER
        for other in ascii_lowercase:
            yield before + other + letter + after, _OMITTED
            if other != letter:
                yield before + other + after, _OTHER
    for other in ascii_lowercase:
        yield word + other, _OMITTED


def _is_formed(word: str, vocabulary: Container[str]) -> bool:
    """Whether a word has the ending or the beginning of a known one, or is a compound of two."""
    bases = [word.removesuffix(ending) for ending in _ENDINGS if word.endswith(ending)]
    bases += [word.removeprefix(beginning) for beginning in _BEGINNINGS if word.startswith(beginning)]
    if any(len(base) >= _LEAST_BASE and any(one in vocabulary for one in _spellings(base)) for base in bases):
        return True
    places = range(_LEAST_PART, len(word) - _LEAST_PART + 1) if len(word) >= _LEAST_COMPOUND else ()
    return any(word[:at] in vocabulary and word[at:] in vocabulary for at in places)


def _spellings(base: str) -> Iterator[str]:
    """Yield what a word may be without an ending: "hike" of "hik", "carry" of "carri", "plan" of "plann"."""
    yield base
    yield base + "e"
    if base[-1] == "i":
        yield base[:-1] + "y"
    if base[-1] == base[-2] and base[-1] not in "aeiouyhsw" and base[-3] in "aeiou":
        yield base[:-1]
