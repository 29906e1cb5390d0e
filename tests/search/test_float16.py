"""Half-precision numbers keep their values when they are widened."""

from __future__ import annotations

import numpy as np

from devmem.search.indexes.quantized import widen


def test_every_finite_number() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)].reshape(-1, 8)
    found = widen(finite)
    assert found.dtype == np.float32
    assert np.array_equal(found, finite.astype(np.float32))
    assert np.array_equal(np.signbit(found), np.signbit(finite))
