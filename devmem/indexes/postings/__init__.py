"""The full-text index: postings of the database's rows, in memory."""

from devmem.indexes.postings.impacts import K1, B
from devmem.indexes.postings.index import PostingsIndex
from devmem.indexes.postings.term_codes import EncodedTerms, encode_terms

__all__ = ["K1", "B", "EncodedTerms", "PostingsIndex", "encode_terms"]
