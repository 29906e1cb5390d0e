"""all-MiniLM-L6-v2 on this machine."""

from devmem.embedding.minilm.provider import Provider

__all__ = ["Provider"]
