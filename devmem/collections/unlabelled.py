"""Collections in a format of others whose embeddings may not name the model that made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from devmem.model.items import MemoryItem


@runtime_checkable
class UnlabelledEmbeddings(Protocol):
    """A collection that keeps embeddings of an unknown model aside: who has the model settles whether it made them."""

    location: str

    def unlabelled(self) -> list[MemoryItem]:
        """Return the items whose embedding names no model and was not settled, with that embedding."""
        ...

    def settle_unlabelled(self, items: Sequence[MemoryItem], *, same_model: bool) -> None:
        """Search by the embeddings of `unlabelled` items from now on, or keep them in the file alone.

        It writes nothing. The next write labels those of the same model.
        """
        ...

    def kept_vectors(self) -> int:
        """Return the number of embeddings that stand in the file, but are not known to be of the collection's model."""
        ...
