"""Tools that make the files which the embedding code and its tests read."""
