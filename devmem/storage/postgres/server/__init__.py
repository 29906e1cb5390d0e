"""Searches in tables of the server instead of indexes in memory."""
