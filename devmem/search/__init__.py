"""The search pipeline: candidates, late interaction, features, selection; a database is a `SearchSource`."""
