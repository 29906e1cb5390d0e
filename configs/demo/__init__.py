"""A team of agents remembers in one process and answers from memory in another."""
