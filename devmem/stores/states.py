"""Stores that keep more than items, and take it over from a store that is copied into them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from devmem.stores.memory import MemoryBase


@runtime_checkable
class TakesStates(Protocol):
    """A store that takes over what another one of its type keeps beside its items; asked for with `isinstance`."""

    def take_states(self, source: MemoryBase) -> int:
        """Take over the states of a store whose items were copied into this one; return their number.

        Taking them again changes nothing, and what is here already is kept. A store of another type has none.

        Raises:
            DevmemError: they cannot be read or written.
        """
        ...
