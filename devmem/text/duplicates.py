"""The form in which texts that say the same are equal, so that near-duplicates are found by hashing.

Case, marks, layout, articles, contractions, number words, and greetings and thanks at either end do not count. Numbers,
names, negations, questions, symbols, inflection and the order of words do.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from devmem.text.patterns import lazy_pattern, named_pattern

_PLAIN: Final = str.maketrans({"‘": "'", "’": "'", "ʼ": "'", "′": "'", "−": "-", "‐": "-", "‑": "-"})
_OPENING: Final = named_pattern("cues.txt", "opening")
_CLOSING: Final = named_pattern("cues.txt", "closing")
_CONTRACTIONS: Final = tuple(
    (lazy_pattern(pattern, re.IGNORECASE), written)
    for pattern, written in (
        (r"\bcan(?:'t|not)\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"\bshan't\b", "shall not"),
        (r"n't\b", " not"),
        (r"\blet's\b", "let us"),
        (r"\b(it|that|he|she|there|here|what|who|where)'s\b", r"\1 is"),
        (r"'m\b", " am"),
        (r"'re\b", " are"),
        (r"'ve\b", " have"),
        (r"'ll\b", " will"),
        (r" & ", " and "),
    )
)
_UNSPACED: Final = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_TOKEN: Final = lazy_pattern(
    # An address, a path or a name in code; a number with its sign, separators and unit; a letter of a script without
    # spaces; a word; a mark that counts.
    rf"[^\W{_UNSPACED}]+(?:[./@\\:_][^\W{_UNSPACED}]+)+"
    rf"|(?<![\w)-])-?(?=[^\W_{_UNSPACED}]*\d)[^\W_{_UNSPACED}]+(?:[.,:/-]\d+)*"
    rf"|[{_UNSPACED}]"
    rf"|[^\W_{_UNSPACED}]+(?:'[^\W\d_]+)?"
    r"|[#@~](?=\w)|(?<=\w)#|[^\w\s]"
)
_GROUPED: Final = lazy_pattern(r"-?\d{1,3}(?:,\d{3})+")
_COUNTING: Final = frozenset("#@~?%+=<>¬±×÷")
"""Marks that count; others do only where they are symbols, such as those of currencies, or pictures."""
_IGNORED: Final = frozenset({"a", "an", "the", "please", "啊", "呀", "噢"})
_ACRONYMS: Final = frozenset({"US", "IT", "WHO", "AM", "OR", "IN", "ME"})
"""Acronyms that are other words in small letters."""
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve".split()
    )
}  # fmt: skip
_RELATIVE: Final = named_pattern("cues.txt", "relative")


def statement_form(text: str) -> tuple[str, ...]:
    """Return the words, numbers and symbols of a text that count, in their order; empty where there are none."""
    plain = unicodedata.normalize("NFKC", text.translate(_PLAIN)).translate(_PLAIN)
    plain = _without_courtesies(plain)
    shouts = plain.isupper()
    found: list[str] = []
    words = [match[0] for match in _TOKEN.finditer(_written_out(plain))]
    for at, said in enumerate(words):
        if not (said[0].isalnum() or said[-1].isalnum()):
            if _counts(said):
                found.append(said)
        elif said == "A" and at and not shouts:
            found.append(said)  # a name, as in "vitamin A"
        elif said in _ACRONYMS and not shouts:
            found.append(said)
        elif (word := said.casefold()) not in _IGNORED:
            found.append(_NUMBERS.get(word) or (word.replace(",", "") if _GROUPED.fullmatch(word) else word))
    return tuple(found)


def depends_on_day(text: str) -> bool:
    """Whether a text may mean something else when it is said on another day: "tomorrow", "last week", "on Monday"."""
    return _RELATIVE.search(text) is not None


def _without_courtesies(text: str) -> str:
    """Return a text without greetings before it and thanks after it; one that is nothing else stays unchanged."""
    start = 0
    while (match := _OPENING.match(text, start)) is not None and match.end() > start:
        start = match.end()
    left = _CLOSING.sub(lambda _: "", text[start:])
    return left if any(map(str.isalnum, left)) else text


def _written_out(text: str) -> str:
    """Write contractions out; the first letter of "Won't" and "Can't" becomes small, which makes no difference."""
    if "'" not in text and " & " not in text and "annot" not in text.casefold():
        return text
    for pattern, written in _CONTRACTIONS:
        text = pattern.sub(written, text)
    return text


def _counts(mark: str) -> bool:
    if mark in _COUNTING:
        return True
    # Not the accents and carets of markup.
    return unicodedata.category(mark[0]) in ("Sc", "So", "Sm") and mark not in "|~"
