"""Arrays that are appended to."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

_LEAST_ROOM: Final = 1024

Array = TypeVar("Array", bound=NDArray[Any])


def with_room(array: Array, need: int, most: int | None = None) -> Array:
    """Return an array with room for `need` entries: itself, or a copy of at least twice its length.

    A copy is no longer than `most`, which is at least `need`; None stands for any length.

    Entries are rows of the first axis; the new ones are not initialized. Whoever holds the old array keeps it as it
    was.
    """
    if need <= len(array):
        return array
    room = max(need, 2 * len(array), _LEAST_ROOM)
    grown = np.empty((room if most is None else min(room, most), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown  # type: ignore[return-value]
