"""Pytest plugins that put an adapter in the place of its host's memory, for the host's own tests."""
