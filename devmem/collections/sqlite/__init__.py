"""The SQLite collection."""
