"""The terms that full-text search matches, made by several threads at once too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snowballstemmer.english_stemmer import EnglishStemmer

from devmem.text.analysis import STOP_WORDS, forms_question, mostly_unspaced, query_terms, terms
from tests.cases import cases

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=200)


@pytest.mark.parametrize(
    ("query", "text"),
    cases("text_terms", "a_query_finds_its_text"),
)
def test_a_query_finds_its_text(query: str, text: str) -> None:
    assert set(query_terms(query)) & set(terms(text))


def test_a_query_of_stop_words_searches_for_them() -> None:
    """`to be or not to be` must find something."""
    found = query_terms("to be or not to be")
    assert found
    assert query_terms("who are you?") == ["who", "are", "you"]


@pytest.mark.parametrize("text", ["", " \n\t", "!?… —", "👩‍👩‍👧‍👦", "\u200b\ufeff", "\x00"])
def test_a_text_without_words(text: str) -> None:
    assert terms(text) == []
    assert query_terms(text) == []


@given(one=TEXTS, two=TEXTS)
def test_texts_on_two_lines_are_two_texts(one: str, two: str) -> None:
    """The terms of a summary and of its snapshots do not run into each other."""
    assert terms(f"{one}\n{two}") == terms(one) + terms(two)


def test_stop_words_are_left_out_in_every_form() -> None:
    """A stop word whose stem is not one would be searched for after all: why, does, before, any."""
    assert query_terms(f"zebra {' '.join(STOP_WORDS)}") == ["zebra"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("北京的会议 on Friday", False),
        ("北京的会议改到 Friday", True),
        ("การประชุม", True),
        ("회의", True),
        ("tea", False),
        ("", False),
    ],
)
def test_scripts_without_spaces_are_recognised(text: str, answer: bool) -> None:
    assert mostly_unspaced(text) is answer


@given(
    text=st.text(st.characters(max_codepoint=127), max_size=60) | st.sampled_from(["getUserName", "I've e-mail. a.b"])
)
def test_ascii_text_has_the_terms_that_it_has_within_other_text(text: str) -> None:
    """ASCII text is taken apart by a faster pattern."""
    assert [*terms(text), "é"] == terms(f"{text} é")


@pytest.mark.parametrize(
    ("word", "before", "forms"),
    [
        ("Did", "", True),
        ("does", "what", True),
        ("s", "'", True),
        ("ll", "’", True),
        ("d", "vitamin", False),
        ("n", "'", False),
        ("done", "", False),
    ],
)
def test_words_that_only_form_a_question(word: str, before: str, forms: bool) -> None:
    assert forms_question(word, before) is forms


_THREADS = 4
_WORDS = [
    f"{first}{second}{ending}"
    for first, second, ending in product(
        ("mar", "ten", "col", "bri", "sto", "lum"),
        ("ka", "vi", "lo", "dep", "num"),
        ("nesses", "ational", "ingly", "ies", "ement", "fulness", "ization", "ously"),
    )
]
"""No word of another test: what is cached already would not be stemmed again."""


@pytest.fixture
def eager_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
def test_threads_do_not_disturb_the_stems_of_one_another() -> None:
    together = Barrier(_THREADS)

    def analyse(number: int) -> dict[str, list[str]]:
        together.wait()
        return {word: terms(word) for word in _WORDS[number::_THREADS]}

    with ThreadPoolExecutor(_THREADS) as threads:
        found = {word: made for part in threads.map(analyse, range(_THREADS)) for word, made in part.items()}
    expected = {word: [EnglishStemmer().stemWord(word)] for word in _WORDS}
    assert found == expected
    # What the cache kept is right as well.
    assert {word: terms(word) for word in _WORDS} == expected
