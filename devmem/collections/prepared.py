"""An item made ready to be stored: cut into passages once, for the embedding model and for the collection alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from devmem.embedding import PassageEmbeddings
from devmem.indexes.passages import indexed_text, passages_of
from devmem.indexes.postings import EncodedTerms, encode_terms
from devmem.model.items import MemoryItem


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedItem:
    """An item, the passages that it is searched by, and their embeddings where they were made."""

    item: MemoryItem
    passages: tuple[str, ...]
    """At least one; a single empty one when the item has no text."""
    embeddings: PassageEmbeddings | None = None
    """Embeddings of the passages; None when there are none yet, and the item waits for them."""

    @staticmethod
    def of(item: MemoryItem | PreparedItem) -> PreparedItem:
        """Cut an item into its passages; its own `embedding` becomes that of the first one."""
        if isinstance(item, PreparedItem):
            return item
        own = None if item.embedding is None else PassageEmbeddings.of(item.embedding)
        return PreparedItem(item=item, passages=tuple(passages_of(item)) or ("",), embeddings=own)

    def terms(self) -> Iterable[EncodedTerms]:
        """Return what full-text search finds each passage by, in order."""
        return (encode_terms(indexed_text(passage, self.item)) for passage in self.passages)

    def length(self) -> int:
        """Return the characters of all passages."""
        return sum(map(len, self.passages))
