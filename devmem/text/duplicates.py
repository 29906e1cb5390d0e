"""The form in which texts that say the same are equal, so that near-duplicates are found by hashing.

Case, marks, layout, articles, contractions, number words, and greetings and thanks at either end do not count. Numbers,
names, negations, questions, symbols, inflection and the order of words do.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from devmem.text.patterns import lazy_pattern

_PLAIN: Final = str.maketrans({"‘": "'", "’": "'", "ʼ": "'", "′": "'", "−": "-", "‐": "-", "‑": "-"})
_OPENING: Final = lazy_pattern(
    r"\s*(?:(?:hi|hello|hey|oh|ok|okay|so|well|um|uh|hmm|btw|by the way|fyi|note|reminder"
    r"|你好|您好|嗯|哦|对了|请注意|提醒)"
    r"\s*[,.!:]+\s*|(?:please )?(?:note|remember) that\s+|(?:请)?记住[,:]?\s*)",
    re.IGNORECASE,
)
_CLOSING: Final = lazy_pattern(
    r"[.!,;。]\s*(?:(?:many )?thanks(?: a lot| so\smuch| again)?|thank you(?: so\smuch| very much)?|cheers|please"
    r"|谢谢你?|多谢)"
    r"[\s.!。]*$",
    re.IGNORECASE,
)
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
_RELATIVE: Final = lazy_pattern(
    r"\b(?:today|tonight|tomorrow|yesterday|now|currently|ago|recently|soon|later|just|still|yet|already"
    r"|(?:this|next|last|coming|past) \w+|in (?:a|an|\d+|two|three|a few) \w+"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b"
    r"|今[天早晚年]|明[天早晚年]|昨[天晚]|后天|前天|去年|现在|目前|刚|[上下这本][个]?(?:周|月|星期|年)|周[一二三四五六日末]",
    re.IGNORECASE,
)


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
