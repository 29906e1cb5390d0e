"""Terms made by several threads at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import pytest
from snowballstemmer.english_stemmer import EnglishStemmer

from devmem.text.analysis import terms

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
