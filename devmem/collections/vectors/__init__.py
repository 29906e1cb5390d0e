"""Vectors of the database's rows in memory, and which of them are nearest to a query."""

from devmem.collections.vectors.index import VectorIndex
from devmem.collections.vectors.segment import Rows

__all__ = ["Rows", "VectorIndex"]
