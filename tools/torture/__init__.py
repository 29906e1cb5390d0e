"""Faults injected into devmem on purpose, judged by brute force."""

import os

# Before numpy is loaded: the threads of its libraries would not survive a fork.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"
