"""How many vectors a search on the server compares exactly: more where more codes are as near by chance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from devmem.model.items import Vector
from devmem.search.indexes.codes import sign_codes
from devmem.storage.postgres.server.admitted import Admitted
from devmem.storage.postgres.server.vector_codes import CodedPassages, no_codes
from devmem.storage.postgres.server.vectors import NearestCodes

DIMENSION = 96
WANTED = 200


def _vectors(count: int) -> Vector:
    """Return vectors around 20 centres, with twice as much noise as the centre."""
    chance = np.random.default_rng(5)
    centres = chance.standard_normal((20, DIMENSION), dtype=np.float32)
    vectors = centres[np.arange(count) % 20] + 2 * chance.standard_normal((count, DIMENSION), dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _compared(vectors: Vector, query: Vector) -> NearestCodes:
    coded = CodedPassages(np.arange(len(vectors), dtype=np.int64), sign_codes(vectors))
    everything = cast("Admitted", SimpleNamespace(restricts=False))
    return NearestCodes(query, everything, (coded, no_codes(DIMENSION)))


@pytest.mark.parametrize(("count", "most"), [(1_000, 400), (20_000, 400), (45_000, 600), (80_000, 800)])
def test_the_number_grows_with_the_codes(count: int, most: int) -> None:
    vectors = _vectors(count)
    assert len(_compared(vectors, vectors[0]).nearest(WANTED)) == most


def test_all_are_compared_where_there_are_few() -> None:
    vectors = _vectors(300)
    compared = _compared(vectors, vectors[0])
    assert compared.takes_all(WANTED)
    assert compared.nearest(WANTED).tolist() == list(range(300))
    assert not _compared(_vectors(1_000), vectors[0]).takes_all(WANTED)


def test_the_number_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmem.storage.postgres.server.vectors._CODES_EACH", 10)
    vectors = _vectors(2_000)
    assert len(_compared(vectors, vectors[0]).nearest(WANTED)) == 5 * WANTED
