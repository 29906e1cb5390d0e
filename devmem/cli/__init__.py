"""The `devmem` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

_SERVING: Final = frozenset({"mcp", "run", "web"})
"""Commands that run for long, or functions of the user's in their process."""
_COLLECT_AFTER: Final = 50_000
"""Number of new objects after which the garbage collector looks for cycles; Python's default is 700."""
_BLAS_WAIT: Final = "16"
"""Binary logarithm of the clock cycles for which an idle thread of BLAS waits actively; the default is 26."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; `argv` stands in for the process's arguments."""
    _open_closed_streams()
    if argv is None and _SERVING.isdisjoint(sys.argv):
        _shorten_life()
    from devmem.errors import DistributionClashError
    from devmem.installation import check_installation

    try:
        # Where another package `devmem` was installed over this one, its `__init__` did not check.
        check_installation()
    except DistributionClashError as error:
        sys.exit(f"error: {error}")
    from devmem.cli.app import app

    app(args=None if argv is None else list(argv), prog_name="devmem")
    sys.exit(0)


def _open_closed_streams() -> None:
    """Open the standard streams that the caller has closed on the null device, before other files get their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        # An embedding program may replace the streams by others, which have no number.
        if getattr(sys, name) is not None:
            continue
        mode = "r" if name == "stdin" else "w"
        handle = os.open(os.devnull, os.O_RDWR)
        if handle != number:
            os.dup2(handle, number)
            os.close(handle)
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - open until the end


def _shorten_life() -> None:
    """Spare a process that runs one short command a quarter of its time.

    Importing modules makes many objects and hardly any cycles. At exit the interpreter would visit all objects again,
    several times, to free memory that the system takes back at once; what a command writes is written by then, since
    it closes what it opens. BLAS starts a thread on each further processor, which would wait actively for 25 ms.
    """
    gc.set_threshold(_COLLECT_AFTER)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_WAIT)
