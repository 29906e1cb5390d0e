"""Number of threads that FAISS uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep FAISS from starting threads for one query: waking them costs more than they save.

    The setting is the calling thread's own (OpenMP's nthreads-var), so nobody else's searches change.
    """
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
