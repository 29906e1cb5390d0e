"""The words of the database's rows in memory, and which rows match a text best."""

from devmem.collections.postings.encoding import EncodedTerms, encode_terms
from devmem.collections.postings.impacts import K1, B
from devmem.collections.postings.index import PostingsIndex

__all__ = ["K1", "B", "EncodedTerms", "PostingsIndex", "encode_terms"]
