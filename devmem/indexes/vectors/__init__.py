"""The vector index: vectors of the database's rows, in memory."""

from devmem.indexes.vectors.index import VectorIndex, VectorReader

__all__ = ["VectorIndex", "VectorReader"]
