"""Adapters against the real frameworks: an environment for each, our contracts in it, and the framework's own tests."""
