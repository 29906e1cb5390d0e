"""Texts to vectors: one protocol, and the providers that a store's `embedding:` block can name."""

from devmem.embedding.base import Embedder, ModelIdentity
from devmem.embedding.factory import open_embedder
from devmem.embedding.tokens import PassageEmbeddings, TokenCodes, TokenEmbedder, TokenEmbedding, token_codes

__all__ = [
    "Embedder",
    "ModelIdentity",
    "PassageEmbeddings",
    "TokenCodes",
    "TokenEmbedder",
    "TokenEmbedding",
    "open_embedder",
    "token_codes",
]
