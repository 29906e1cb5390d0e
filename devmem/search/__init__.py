"""The search pipeline: filter, candidates, late interaction, features, selection; a database is a `SearchSource`."""
