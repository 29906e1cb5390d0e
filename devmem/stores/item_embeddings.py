"""Embeddings of items: a vector for each passage, and the codes of its tokens."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from devmem.collections import passages_of
from devmem.embedding import Embedder, PassageEmbeddings, TokenCodes, TokenEmbedder, token_codes
from devmem.model.items import MemoryItem, Vector


def embed_items(
    embedder: Embedder, items: Sequence[MemoryItem], *, tokens: bool = True
) -> dict[str, PassageEmbeddings]:
    """Embed the passages of items in one call; return the embeddings by item id, for equal ids those of the last item.

    Args:
        embedder: the model.
        items: what to embed; none may be blank.
        tokens: take the vectors of their tokens too, where the model gives them.

    Raises:
        EmbeddingError: the model failed; nothing was embedded.
    """
    passages = [passages_of(item) or [item.content_summary] for item in items]
    made = _encoded(embedder, [text for texts in passages for text in texts], tokens=tokens)
    ends = list(itertools.accumulate(map(len, passages)))
    spans = zip([0, *ends], ends, strict=False)
    return {
        item.id: replace(_joined(made[start:end]), content_hash=item.content_hash)
        for item, (start, end) in zip(items, spans, strict=True)
    }


def _encoded(embedder: Embedder, texts: Sequence[str], *, tokens: bool) -> list[tuple[Vector, TokenCodes | None]]:
    if tokens and isinstance(embedder, TokenEmbedder):
        return [(made.vector, token_codes(made)) for made in embedder.embed_tokens(texts)]
    return [(vector, None) for vector in embedder.embed(texts)]


def _joined(passages: Sequence[tuple[Vector, TokenCodes | None]]) -> PassageEmbeddings:
    codes = tuple(one for _, one in passages if one is not None)
    return PassageEmbeddings(vectors=np.stack([vector for vector, _ in passages]), tokens=codes or None)
