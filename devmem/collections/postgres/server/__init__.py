"""Searching where the indexes are in the database: postings in blocks, vectors beside the items."""
