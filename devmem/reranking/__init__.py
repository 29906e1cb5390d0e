"""Rerankers that read the best candidates again: a cross encoder, a chat model, or a plugin."""

from devmem.reranking.base import Reranker, RerankerFactory
from devmem.reranking.factory import open_reranker, register_reranker, reranker_names

__all__ = ["Reranker", "RerankerFactory", "open_reranker", "register_reranker", "reranker_names"]
