"""Limits how many threads numpy's matrix products use, while a model runs and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_running = 0
_limiter: Any = None


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries takes milliseconds, setting their limit microseconds: look once.
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def limited_blas(threads: int) -> Iterator[None]:
    """Hold BLAS to `threads` threads inside the block.

    The limit belongs to the process. Of blocks that overlap in time, the first one's limit holds for all and
    the last one to end puts the old limit back: if each put back what it found, a limit could stay for good.
    """
    global _running, _limiter
    with _lock:
        if _running == 0:
            _limiter = _controller().limit(limits=threads)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if _running == 0:
                _limiter.restore_original_limits()
