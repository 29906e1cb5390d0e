"""Arrays that are appended to."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_LEAST_ROOM: Final = 1024

Array = TypeVar("Array", bound=NDArray[Any])


def with_room(array: Array, need: int) -> Array:
    """Give a one-dimensional array with room for so many entries: itself, or a copy of at least twice its length.

    What stands in the new room is left open.
    """
    if need <= len(array):
        return array
    return np.resize(array, max(need, 2 * len(array), _LEAST_ROOM))  # type: ignore[return-value]
