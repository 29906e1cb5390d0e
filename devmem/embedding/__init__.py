"""Texts to vectors: one protocol, and the providers that a store's `embedding:` block can name."""

from devmem.embedding.base import AsymmetricEmbedder, Embedder, ModelIdentity, query_embedder
from devmem.embedding.combined import CombinedEmbedder
from devmem.embedding.factory import open_embedder
from devmem.embedding.registry import EmbeddingProvider, embedding_provider_names, register_embedding_provider
from devmem.embedding.tokens import PassageEmbeddings, TokenCodes, TokenEmbedder, TokenEmbedding, token_codes

__all__ = [
    "AsymmetricEmbedder",
    "CombinedEmbedder",
    "Embedder",
    "EmbeddingProvider",
    "ModelIdentity",
    "PassageEmbeddings",
    "TokenCodes",
    "TokenEmbedder",
    "TokenEmbedding",
    "embedding_provider_names",
    "open_embedder",
    "query_embedder",
    "register_embedding_provider",
    "token_codes",
]
