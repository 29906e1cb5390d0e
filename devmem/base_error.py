"""The base of every error that devmem raises on purpose; `devmem.errors` has the tree."""

from __future__ import annotations


class DevmemError(Exception):
    """Base of every error that devmem raises on purpose."""
