"""Encryption of a store's files: keys, which files they belong to, and how files are read and written with them."""
