"""Text analysis: the terms that full-text search matches.

Words are folded (Unicode NFKC, case) and, where they are English, stemmed (Snowball). An identifier yields itself and
its parts, so that both `getUserName` and `user name` find it. Scripts written without spaces yield single characters
and pairs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import chain, pairwise
from typing import Any, Final

from devmem.text.patterns import lazy_pattern

ANALYSIS_VERSION: Final = "6"
"""Recorded with every collection; terms and cues of another version are rebuilt when it is opened."""

# Kana, Han, Hangul, Thai, Lao, Myanmar and Khmer.
_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_TOKEN: Final = lazy_pattern(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])\w)+(?:[.\-'’](?:(?![{_UNSPACED}])\w)+)*")
# The same for ASCII text, which has no such scripts: found four times as fast.
_ASCII_TOKEN: Final = lazy_pattern(r"\w+(?:[.\-']\w+)*")
_UNSPACED_RUN: Final = lazy_pattern(rf"[{_UNSPACED}]")
_WORD: Final = lazy_pattern(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_LETTER: Final = lazy_pattern(rf"[\w{_UNSPACED}]")
# A part of an identifier: an acronym, or a word of a camel-cased name; digits stay with the word before them.
_PART: Final = lazy_pattern(r"[A-Z]+\d*(?=[A-Z][a-z]|[\W_]|$)|[A-Z]?[^\W_A-Z]+|[A-Z]+")
_CLITIC: Final = lazy_pattern(r"(?:n['’]t|['’](?:s|ve|re|ll|d|m)?)$", re.IGNORECASE)

STOP_WORDS: Final = frozenset(
    """a about after all also am an and any are as at be been before being but by can could did do does doing for from
    had has have having he her hers him his how i if in into is it its just me more most my of on or our out over she so
    some such than that the their them then there these they this those to too up us was we were what when where which
    while who whom why will with would you your s t ani befor doe whi
    的 了 是 我 你 他 她 它 们 們 您 咱 在 有 和 与 與 就 也 都 很 这 這 那 吗 嗎
    呢 吧 啊 嗯 哦 哪 么 麼 个 個 一""".split()
)
"""Words that carry no meaning of their own in a question, and their stems; they are indexed but not searched for."""

_DO_SUPPORT: Final = frozenset(("did", "do", "does"))
_CUT_OFF: Final = frozenset("d ll m re s t ve".split())


@cache
def _english_stemmer() -> Any:  # noqa: ANN401 - snowballstemmer has no types
    # The class itself: `snowballstemmer.stemmer` takes PyStemmer where it is installed, whose stems may differ, and
    # terms are kept in files that other installations read.
    from snowballstemmer.english_stemmer import EnglishStemmer

    return EnglishStemmer


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a word in small letters; one of other letters than ASCII's is its own."""
    if not (word.isascii() and word.isalpha() and len(word) > 2):
        return word
    # A stemmer keeps the word that it works on in itself: a new one a word (0.4 µs) cannot be shared by threads.
    return str(_english_stemmer()().stemWord(word))


@lru_cache(maxsize=1 << 16)
def _word_terms(word: str) -> tuple[str, ...]:
    whole = _CLITIC.sub("", word)
    parts = [stem(part.casefold()) for part in _PART.findall(whole)]
    if len(parts) <= 1:
        return (stem(whole.casefold()),)
    return (whole.casefold(), *parts)


def terms(text: str) -> list[str]:
    """Return every term of the text in order, repeats and stop words included."""
    if text.isascii():
        return list(chain.from_iterable(map(_word_terms, _ASCII_TOKEN.findall(text))))
    found: list[str] = []
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text)):
        found += (*token, *map("".join, pairwise(token))) if _UNSPACED_RUN.match(token) else _word_terms(token)
    return found


def query_terms(text: str) -> list[str]:
    """Return the distinct terms to search for: without stop words, unless there is nothing else."""
    distinct = list(dict.fromkeys(terms(text)))
    return [term for term in distinct if term not in STOP_WORDS] or distinct


_CHARACTER_WEIGHT: Final = 0.3
"""A single character of a script without spaces is less specific than a pair, which is mostly a word."""


def term_weight(term: str) -> float:
    """Return the weight of a query term, its rarity aside: from 0 to 1."""
    return _CHARACTER_WEIGHT if len(term) == 1 and _UNSPACED_RUN.match(term) else 1.0


def words(text: str) -> Iterator[int]:
    """Return the end of each word as people count words; a character of a script without spaces is one word."""
    return (found.end() for found in _WORD.finditer(text) if _LETTER.search(found[0]))


@lru_cache(maxsize=1 << 16)
def is_content(word: str) -> bool:
    """Whether a word carries its own meaning; punctuation and stop words do not."""
    return any(term not in STOP_WORDS for term in terms(word))


def forms_question(word: str, before: str) -> bool:
    """Whether a word only forms a question ("did"), or is what an apostrophe cuts off ("Ann's").

    Answers hardly ever contain either as a word: their rarity says nothing.

    Args:
        word: a word, or a part of one.
        before: the word or sign before it; empty at the start.
    """
    folded = word.casefold()
    return folded in _DO_SUPPORT or (before in ("'", "’") and folded in _CUT_OFF)


def mostly_unspaced(text: str) -> bool:
    """Whether most letters of the text are of a script without spaces (Chinese, Japanese, Korean, Thai, ...)."""
    letters = sum(char.isalpha() for char in text)
    return letters > 0 and 2 * len(_UNSPACED_RUN.findall(text)) > letters


_END: Final = lazy_pattern(r"(?:[。！？；\n]|[.!?](?=\s)|[.!?][”’」』）\"')\]]+(?=\s))[。！？；.!?”’」』）\"')\]\s]*")
"""Full-width marks and line breaks always end a sentence; .!? only before white space, as in 3.14 or a.b/c?d."""


def split_sentences(text: str) -> list[str]:
    """Split a text after each end of a sentence and the white space behind it; the pieces join to the text."""
    ends = [match.end() for match in _END.finditer(text)]
    return [text[start:end] for start, end in zip([0, *ends], [*ends, len(text)], strict=True) if start < end]


SUMMARY_LENGTH: Final = 1000
"""Maximum number of characters of an item's summary; a longer text is kept whole in a snapshot, and searched."""


def shorten(text: str, limit: int, *, mark: str = "…") -> str:
    """Keep whole sentences from the start, at most `limit` characters in all; `mark` shows that something was cut.

    A first sentence that is too long is cut at a word where one ends in its last third, else hard.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    room = max(limit - len(mark), 0)
    kept = ""
    for sentence in split_sentences(text):
        if len(kept) + len(sentence) > room:
            break
        kept += sentence
    if not kept.strip():
        kept = text[:room]
        space = kept.rfind(" ")
        if space > 2 * room // 3:
            kept = kept[:space]
    return (kept.rstrip() + mark)[:limit]


PASSAGE_LENGTH: Final = 700
"""Characters: about 160 tokens of English, of which all-MiniLM-L6-v2 reads 256."""


def split_passages(text: str, limit: int = PASSAGE_LENGTH) -> list[str]:
    """Return the passages of a text, each at most `limit` characters, without blank ones; a short text is one."""
    if len(text) <= limit:
        return [text] if text.strip() else []
    return [piece.strip() for piece in split_text(text, limit) if piece.strip()]


def split_text(text: str, limit: int) -> list[str]:
    """Split `text` at sentence ends into pieces of at most `limit` characters that join to the text.

    A sentence that is longer is cut at a space in its second half, or else wherever the limit falls.
    """
    pieces = [""]
    for sentence in split_sentences(text):
        for part in _hard_split(sentence, limit):
            if len(pieces[-1]) + len(part) <= limit:
                pieces[-1] += part
            else:
                pieces.append(part)
    return pieces


def _hard_split(sentence: str, limit: int) -> Iterator[str]:
    while len(sentence) > limit:
        cut = sentence.rfind(" ", limit // 2, limit) + 1 or limit
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


# What byte-pair tokenizers do on average: a Latin word of up to about six letters is one token, punctuation another, a
# CJK character about one.
_PIECE: Final = lazy_pattern(r"[^\W_]{1,6}|[^\w\s\x80-\U0010ffff]|_", re.ASCII)


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text; errs on the high side for English, and counts 1 a character outside ASCII."""
    return len(_PIECE.findall(text)) + sum(1 for char in text if ord(char) > 127 and not char.isspace())
