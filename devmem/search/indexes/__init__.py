"""Indexes in memory: postings, vectors, doc values, token codes; a cache of what the database holds."""
