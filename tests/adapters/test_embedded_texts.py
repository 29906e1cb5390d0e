"""The embedder that knows which text a vector is of."""

from __future__ import annotations

import threading

import pytest

from devmem.adapters import hosts
from devmem.adapters.hosts import EmbeddedTexts
from devmem.testing import HashEmbedder


def test_the_text_of_a_vector_is_known_after_it_went_through_json_numbers() -> None:
    texts = EmbeddedTexts(HashEmbedder())
    vectors = texts(["a red kite", "tea with milk"])
    assert [texts.text_of([float(number) for number in vector]) for vector in vectors] == [
        "a red kite",
        "tea with milk",
    ]
    assert texts.text_of([0.25] * 64) is None
    assert texts.text_of([]) is None


def test_only_the_last_texts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_KEPT", 2)
    texts = EmbeddedTexts(HashEmbedder())
    [first], [second] = texts(["one kite"]), texts(["two kites"])
    texts(["one kite"])
    texts(["three kites"])
    assert (texts.text_of(first), texts.text_of(second)) == ("one kite", None)


def test_several_threads_may_embed_at_once() -> None:
    texts, wrong = EmbeddedTexts(HashEmbedder()), []

    def embed(number: int) -> None:
        for round_ in range(50):
            said = f"note {number} of {round_}"
            if texts.text_of(texts([said])[0]) != said:
                wrong.append(said)

    threads = [threading.Thread(target=embed, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
