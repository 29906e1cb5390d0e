"""A document store, retrievers and a writer of conversations for Haystack; needs the extra `haystack`."""

from devmem.adapters.hosts import require as _require

_require("haystack", package="haystack-ai", extra="haystack")

from devmem.adapters.haystack.components import (
    DevmemEmbeddingRetriever,
    DevmemHybridRetriever,
    DevmemKeywordRetriever,
    DevmemMemoryRetriever,
    DevmemMemoryWriter,
)
from devmem.adapters.haystack.store import DevmemDocumentStore

__all__ = [
    "DevmemDocumentStore",
    "DevmemEmbeddingRetriever",
    "DevmemHybridRetriever",
    "DevmemKeywordRetriever",
    "DevmemMemoryRetriever",
    "DevmemMemoryWriter",
]
