"""Embeddings of items: a vector for each passage, and the codes of its tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from devmem.collections import PreparedItem
from devmem.embedding import Embedder, PassageEmbeddings, TokenCodes, TokenEmbedder, token_codes
from devmem.model.indexed_fields import embedded_hash
from devmem.model.items import MemoryItem, Vector


def embed_items(
    embedder: Embedder,
    items: Sequence[MemoryItem | PreparedItem],
    *,
    tokens: bool = True,
    known: Callable[[float], None] | None = None,
) -> list[PreparedItem]:
    """Embed the passages of items in one call of the model; return the items with their embeddings, in their order.

    Args:
        embedder: the model.
        items: items with a text; those that have embeddings get new ones.
        tokens: whether to embed their tokens too, where the model does that.
        known: called with the share of its words that the model knows, for each passage whose tokens are embedded.

    Raises:
        EmbeddingError: the model failed; nothing was embedded.
    """
    prepared = [PreparedItem.of(item) for item in items]
    made = _encoded(embedder, [text for item in prepared for text in _texts(item)], tokens, known)
    ends = list(itertools.accumulate(len(item.passages) for item in prepared))
    spans = zip([0, *ends], ends, strict=False)
    return [
        replace(item, embeddings=_joined(made[start:end], embedded_hash(item.item)))
        for item, (start, end) in zip(prepared, spans, strict=True)
    ]


def _texts(prepared: PreparedItem) -> Sequence[str]:
    """Return what is embedded: the summary where no passage has a text."""
    return prepared.passages if any(prepared.passages) else [prepared.item.content_summary]


def _encoded(
    embedder: Embedder, texts: Sequence[str], tokens: bool, known: Callable[[float], None] | None
) -> list[tuple[Vector, TokenCodes | None]]:
    if tokens and isinstance(embedder, TokenEmbedder):
        embedded = embedder.embed_tokens(texts)
        for one in embedded if known else ():
            known(one.known)  # type: ignore[misc]
        return [(made.vector, token_codes(made)) for made in embedded]
    return [(vector, None) for vector in embedder.embed(texts)]


def _joined(passages: Sequence[tuple[Vector, TokenCodes | None]], content_hash: str) -> PassageEmbeddings:
    codes = tuple(one for _, one in passages if one is not None)
    vectors = np.stack([vector for vector, _ in passages])
    return PassageEmbeddings(vectors=vectors, tokens=codes or None, content_hash=content_hash)
