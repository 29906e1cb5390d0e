"""Indexes in memory: postings, vectors, doc values, passage map, token codes; no database."""
