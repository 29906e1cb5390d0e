"""Vectors that the caller made: stored with what is added, searched with, and given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import devmem
from devmem.errors import EmbeddingError, ItemNotFoundError

GIVEN = {"provider": "given", "model": "mine"}
VECTORS = np.random.default_rng(7).normal(scale=3.0, size=(6, 8))


@pytest.fixture(params=["vectors.db", "vectors.json"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / request.param)


@pytest.fixture
def memory(place: str) -> Iterator[devmem.Memory]:
    with devmem.open(place, embedding=GIVEN) as opened:
        opened.add([{"text": f"note {n}", "id": f"n{n}", "embedding": vector} for n, vector in enumerate(VECTORS[:4])])
        yield opened


def vector_of(memory: devmem.Memory, item_id: str) -> Any:
    record = memory.get(item_id)
    assert record is not None
    return record.vector


def test_vectors_are_found_and_given_back(memory: devmem.Memory) -> None:
    for number, vector in enumerate(VECTORS[:4]):
        np.testing.assert_allclose(vector_of(memory, f"n{number}"), vector, rtol=1e-5)
        assert memory.search(vector=list(vector), limit=1)[0].id == f"n{number}"
    both = memory.search("note 2", vector=VECTORS[1], limit=2)
    assert {hit.id for hit in both} == {"n1", "n2"}
    assert memory.search("note 2", limit=1)[0].id == "n2"
    assert "devmem.vector" not in both[0].item.caller_metadata


def test_an_example_finds_what_is_like_it(memory: devmem.Memory) -> None:
    cosines = (VECTORS[:4] @ VECTORS[0]) / np.linalg.norm(VECTORS[:4], axis=1)
    nearest = [f"n{at}" for at in np.argsort(-cosines) if at]
    memory.update(where={"user": None}, metadata={"seen": True})
    assert "n0" not in [hit.id for hit in memory.search(like="n0", limit=4)]
    assert memory.search(vector=VECTORS[0], limit=1, offset=1)[0].id == nearest[0]
    with pytest.raises(ItemNotFoundError):
        memory.search(like="nobody")
    with pytest.raises(ValueError, match="takes the place of a query"):
        memory.search("tea", like="n0")


def test_another_vector_of_the_same_text_takes_its_place(memory: devmem.Memory) -> None:
    memory.add("note 3", id="n3", embedding=VECTORS[4])
    np.testing.assert_allclose(vector_of(memory, "n3"), VECTORS[4], rtol=1e-5)
    first = memory.add("plain")
    assert vector_of(memory, first) is None
    for vector in (VECTORS[4], VECTORS[5]):
        assert memory.add("plain", embedding=vector) == first
        np.testing.assert_allclose(vector_of(memory, first), vector, rtol=1e-5)
    memory.update(first, metadata={"room": 4})
    np.testing.assert_allclose(vector_of(memory, first), VECTORS[5], rtol=1e-5)
    memory.update(first, "other")
    assert vector_of(memory, first) is None
    memory.update(first, embedding=VECTORS[0])
    np.testing.assert_allclose(vector_of(memory, first), VECTORS[0], rtol=1e-5)


@pytest.mark.parametrize("wrong", [[1.0, 2.0], [0.0] * 8, [float("nan")] * 8, ["a"] * 8, [[1.0] * 8], "tea", []])
def test_a_vector_that_does_not_fit_is_refused(memory: devmem.Memory, wrong: Any) -> None:
    with pytest.raises(ValueError, match="embedding"):
        memory.add("tea", embedding=wrong)
    with pytest.raises(ValueError, match="embedding"):
        memory.update("n1", embedding=wrong)
    with pytest.raises(ValueError, match="vector"):
        memory.search(vector=wrong)
    assert len(memory) == 4


def test_a_memory_without_a_model_says_so() -> None:
    with devmem.open(":memory:", embedding=None) as words:
        with pytest.raises(EmbeddingError, match="provider': 'given'"):
            words.add("tea", embedding=[1.0, 2.0])
        with pytest.raises(EmbeddingError, match="no vectors"):
            words.search(vector=[1.0, 2.0])
        words.add("tea at four", id="a")
        words.add("tea at five", id="b")
        assert [hit.id for hit in words.search(like="a")] == ["b"]
    with pytest.raises(EmbeddingError, match="name the model"):
        devmem.open(":memory:", embedding={"provider": "given"})
