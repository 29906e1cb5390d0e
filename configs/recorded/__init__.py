"""A team of agents whose every call is recorded."""
