"""Memories for other frameworks: one module or package a host, each with its own extra.

An adapter implements the host's memory interface over a store and uses devmem's public names only; no adapter imports
another.
"""
