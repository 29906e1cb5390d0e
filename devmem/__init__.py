"""Declared memory for multi-agent workflows."""
