"""One script for each peer, run by the peer's own interpreter: it imports nothing of devmem."""
