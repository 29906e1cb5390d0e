"""The cost of adapters over the store itself, each with its framework in an environment of its own."""
