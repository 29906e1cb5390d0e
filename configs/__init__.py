"""Workflows to run and to copy; every one of them is tested."""
