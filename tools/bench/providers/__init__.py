"""How well and how fast stores find with each embedding provider, with token vectors and without."""
