"""Items in SQLite files."""
