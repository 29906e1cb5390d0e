"""DevAll's JSON files as a collection."""
