"""Token vectors for late interaction, and the codes that are kept of them.

Late interaction is from Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized Late
Interaction over BERT" (SIGIR 2020). Of each component only the sign is kept, 48 bytes a token for 384 dimensions;
the query's are rounded to 4 bits a component when they are compared, so a comparison is asymmetric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import Vector
from devmem.text.analysis import is_content

READABLE: Final = 0.5
"""A text of which a model knows a smaller share of the words is not readable to it."""

TokenCodes: TypeAlias = NDArray[np.uint8]
"""Signs of token vectors, a bit a component, shape (tokens, ceil(dimension / 8))."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenEmbedding:
    """A text's vector, and the vectors of its tokens in their context."""

    vector: Vector
    """Unit length, shape (dimension,)."""
    tokens: Vector
    """Rows of unit length, shape (tokens, dimension); the model's own tokens ([CLS], [SEP]) are left out."""
    words: tuple[str, ...]
    """The word that each token is a piece of."""
    known: float = 1.0
    """Share of the text's words that the model knows; a model of one language knows little of another."""
    vector_share: float = 0.0
    """Share that the cosine of the vectors has in a match beside late interaction, fitted for the model, 0 to 1."""


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that returns the vectors of a text's tokens too.

    The protocol has no property: `isinstance` would evaluate it.
    """

    def embed_tokens(self, texts: Sequence[str]) -> list[TokenEmbedding]:
        """Embed the texts and their tokens; raises what `Embedder.embed` raises."""
        ...


def code_bytes(dimension: int) -> int:
    """Return the number of bytes of a token's code."""
    return (dimension + 7) // 8


def token_codes(embedded: TokenEmbedding) -> TokenCodes:
    """Return the codes of a text's content words; of all its words when it has no others."""
    kept = np.array([is_content(word) for word in embedded.words], dtype=np.bool_)
    tokens = embedded.tokens[kept] if kept.any() else embedded.tokens
    return np.packbits(tokens > 0, axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassageEmbeddings:
    """Embeddings of an item: a vector for each passage, and the codes of their tokens where the model has them."""

    vectors: Vector
    """Rows of unit length, shape (passages, dimension)."""
    tokens: tuple[TokenCodes, ...] | None = None
    """One a passage; None when the model gives none."""
    content_hash: str | None = None
    """Hash of the embedded content, see `embedded_hash`; None when it is not known."""

    def is_of(self, content_hash: str) -> bool:
        """Whether the embeddings are of this content: the item of the same id may have changed meanwhile."""
        return self.content_hash in (None, content_hash)

    @classmethod
    def of(cls, vector: Vector) -> Self:
        """Return the embeddings of an item of one passage, without tokens, from its vector of shape (dimension,)."""
        return cls(vectors=vector[None])

    def __post_init__(self) -> None:
        if self.tokens is not None and len(self.tokens) != len(self.vectors):
            raise ValueError(f"{len(self.vectors)} passages, but token codes of {len(self.tokens)}")
