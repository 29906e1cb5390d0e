"""Vectors of the database's rows in memory, and which of them are nearest to a query."""

from devmem.indexes.vectors.index import VectorIndex
from devmem.indexes.vectors.segment import Rows

__all__ = ["Rows", "VectorIndex"]
