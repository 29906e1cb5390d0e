"""Benchmarks: `python -m tools.bench NAME ... [--json FILE]`."""
