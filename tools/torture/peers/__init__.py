"""The same faults injected into the stores of others, each in an environment of its own."""
