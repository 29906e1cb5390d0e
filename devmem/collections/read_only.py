"""A collection that is read only: its writing methods refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.embedding import PassageEmbeddings
from devmem.errors import CollectionReadOnlyError
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter


class ReadOnly:
    """The writing methods of a state that nothing can be written to; a subclass overrides what it can."""

    location: str
    _state: str
    """The state that it shows, for messages."""

    def _refuse(self) -> NoReturn:
        raise CollectionReadOnlyError(self.location, self._state)

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],  # noqa: ARG002
        *,
        unique: Unique = Unique.ID,  # noqa: ARG002
        expected: Mapping[str, str | None] | None = None,  # noqa: ARG002
        absent: Filter | None = None,  # noqa: ARG002
    ) -> list[WriteOutcome]:
        """Refuse to write."""
        self._refuse()

    def pop(self, count: int = 1, where: Filter | None = None) -> list[MemoryItem]:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def clear(self) -> int:
        """Refuse to write."""
        self._refuse()

    def trim(self, *, keep: int | None = None, stored_before: float | None = None) -> int:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def set_embeddings(self, embeddings: Mapping[str, PassageEmbeddings]) -> int:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def index_fields(self, fields: Sequence[str]) -> int:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def record_fields(self, fields: Sequence[str]) -> None:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()

    def replace_model(self, model: str, dimension: int | None) -> int:  # noqa: ARG002
        """Refuse to write."""
        self._refuse()
