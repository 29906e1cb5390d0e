"""Which words of a question may be misspelled, and which words may be meant."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from devmem.text.analysis import stem
from devmem.text.spelling import meant_by, suspects
from tests.cases import cases

VOCABULARY = frozenset(
    """
    back backed budget building camp camping carry dealing dial education end february friend friends finds hike
    hiking letter light perform planning receive received relieved right search should their vegas white window
    """.split()
)


def likely(word: str, vocabulary: frozenset[str] | None = VOCABULARY) -> list[str]:
    """Return what may be meant by a word, the most likely first."""
    meant = meant_by([word], vocabulary)[word]
    return [one.word for one in sorted(meant, key=lambda one: (-one.likelihood, one.word))]


@pytest.mark.parametrize(
    ("text", "vocabulary", "found"),
    [
        ("When did I recieve the lettr?", VOCABULARY, ["recieve", "lettr"]),
        ("When did I recieve the lettr?", None, ["recieve", "lettr"]),
        ("Did Recieve or RECIEVE hapen?", VOCABULARY, ["hapen"]),
        ("see re-cieve, my_recieve, recieve.txt, /recieve, recieve@post.org, #recieve and x=recieve", VOCABULARY, []),
        ('"recieve" (lettr), windo! o\'clokc', VOCABULARY, ["recieve", "lettr", "windo"]),
        ("your thei wich7 abc", VOCABULARY, ["thei"]),
        ("`recieve` it, recieve(), <recieve> and $recieve", VOCABULARY, []),
        ("how do we parse the json docs of a schema?", VOCABULARY, []),
        ("会议是什么时候？ überprüfen прывет", VOCABULARY, []),
        (unicodedata.normalize("NFD", "où est le résumé préparé"), VOCABULARY, []),
        ("re\u00adcieve and recieve\u200bd", VOCABULARY, []),
        ("recieve " * 200, VOCABULARY, []),
    ],
)
def test_what_may_be_misspelled(text: str, vocabulary: frozenset[str] | None, found: list[str]) -> None:
    """Words in small letters that no vocabulary has; no names, paths, addresses, numbers, or other scripts."""
    assert suspects(text, vocabulary) == found


@pytest.mark.parametrize(
    ("word", "meant"),
    cases("text_spelling", "what_may_be_meant"),
)
def test_what_may_be_meant(word: str, meant: list[str]) -> None:
    """Words one edit away; for one formed of a known word only what slips, and for a short one no other letter."""
    assert likely(word) == meant


@pytest.mark.parametrize(
    ("word", "right", "is_found"),
    [
        ("recieve", "receive", True),
        ("buidlings", "buildings", True),
        ("lettters", "letters", True),
        ("buildigns", "buildings", False),
        ("windw", "window", False),
        ("windaw", "window", False),
        ("ciyt", "city", False),
    ],
)
def test_without_a_vocabulary_only_slips_are_taken_back(word: str, right: str, *, is_found: bool) -> None:
    """Of letters before the ending, in words of five letters or more."""
    assert (right in likely(word, None)) == is_found


def test_a_text_with_many_unknown_words_is_of_another_language() -> None:
    words = ["lettr", "windo", "recieve"]
    assert set(meant_by(words, VOCABULARY)) == set(words)
    assert meant_by([*words, "budgt"], VOCABULARY) == {}


@given(st.from_regex(r"[a-z]{4,12}", fullmatch=True))
def test_what_is_meant_is_one_edit_away(word: str) -> None:
    """It starts with the same letter, and has the term that full-text search takes it for."""
    unchecked = meant_by([word], None)[word]
    known = meant_by([word], frozenset(one.word for one in unchecked))[word]
    for one in (*unchecked, *known):
        assert one.word[0] == word[0]
        assert OSA.distance(word, one.word) == 1
        assert one.term == stem(one.word)
    assert {one.word for one in known} <= {one.word for one in unchecked}
