"""Texts to vectors: one protocol, and the providers that a store's `embedding:` block can name."""

from devmem.embedding.base import Embedder, ModelIdentity
from devmem.embedding.opening import open_embedder

__all__ = ["Embedder", "ModelIdentity", "open_embedder"]
