"""Sign codes estimate which vectors are near, whatever the vectors' components are like."""

from __future__ import annotations

import numpy as np
import pytest

from devmem.search.indexes.codes import CodeQuery, code_length, sign_codes
from tools.bench.synthetic import make_corpus


@pytest.mark.parametrize(("dimension", "length"), [(1, 64), (384, 64), (512, 64), (513, 128), (1536, 256)])
def test_a_code_has_as_many_bits_as_a_power_of_two(dimension: int, length: int) -> None:
    assert code_length(dimension) == length
    assert sign_codes(np.ones((3, dimension), dtype=np.float32)).shape == (3, length)


def test_codes_are_the_same_on_every_machine() -> None:
    """They are kept in databases that several machines read."""
    vectors = np.eye(2, 384, dtype=np.float32)
    assert sign_codes(vectors)[:, :4].tolist() == [[19, 6, 140, 2], [35, 9, 76, 1]]


@pytest.mark.parametrize("dimension", [16, 384])
def test_the_nearest_are_found(dimension: int) -> None:
    corpus = make_corpus(3000, dimension=dimension, words=2)
    codes = sign_codes(corpus.vectors)
    for vector in corpus.vectors[:20]:
        exact = np.argsort(-(corpus.vectors @ vector))[:10]
        assert {*exact.tolist()} <= {*CodeQuery.of(vector).nearest(codes, 400).tolist()}


def test_vectors_that_differ_in_a_few_components_are_told_apart() -> None:
    """Their signs alone would be the same."""
    rng = np.random.default_rng(3)
    vectors = np.abs(rng.standard_normal((2000, 64))).astype(np.float32) + 3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = CodeQuery.of(vectors[7]).nearest(sign_codes(vectors), 400)
    assert 7 in found
    assert len({*np.argsort(-(vectors @ vectors[7]))[:10].tolist()} & {*found.tolist()}) >= 8


def test_all_are_returned_where_they_are_few() -> None:
    codes = sign_codes(np.eye(5, 8, dtype=np.float32))
    query = CodeQuery.of(np.eye(1, 8, dtype=np.float32)[0])
    assert query.nearest(codes, 5).tolist() == [0, 1, 2, 3, 4]
    assert query.nearest(codes[:0], 5).tolist() == []
    assert len(query.nearest(np.repeat(codes[:1], 50, axis=0), 5)) == 5


@pytest.mark.parametrize("step", [1, 2, 3, 700])
@pytest.mark.parametrize("first", [0, 1, 40_000])
def test_the_nearest_of_many_are_found_wherever_they_are(step: int, first: int) -> None:
    """Of many codes a sample decides which are compared; the near ones may all be in it, or none of them."""
    vector = np.full(64, 0.125, dtype=np.float32)
    near, far = sign_codes(np.stack([vector, -vector]))
    codes = np.repeat(far[np.newaxis], 150_000, axis=0)
    places = first + step * np.arange(100)
    codes[places] = near
    assert sorted(CodeQuery.of(vector).nearest(codes, 100).tolist()) == places.tolist()
