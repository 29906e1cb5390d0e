"""GELU in numpy, which has no error function."""

from __future__ import annotations

import numpy as np

from devmem.model.items import Vector

# Abramowitz and Stegun, formula 7.1.26, exact to 1.5e-7:
# erfc(z) = t (a1 + t (a2 + ...)) exp(-z z) with t = 1 / (1 + p z).
_P = np.float32(0.3275911)
_A = [np.float32(a) for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)]
_ROOT_HALF = np.float32(np.sqrt(0.5))


def gelu(x: Vector) -> Vector:
    """Return x times the normal distribution function of x, elementwise, as a new array; exact to 1e-6."""
    z = np.abs(x)
    z *= _ROOT_HALF
    t = z * _P
    t += 1
    np.reciprocal(t, out=t)
    tail = t * _A[0]
    for a in _A[1:]:
        tail += a
        tail *= t
    np.square(z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    tail *= z
    # gelu(x) = max(x, 0) - |x| erfc(|x| / sqrt 2) / 2: no branch on the sign of x.
    np.abs(x, out=z)
    tail *= z
    tail *= np.float32(0.5)
    np.maximum(x, 0, out=z)
    z -= tail
    return z
