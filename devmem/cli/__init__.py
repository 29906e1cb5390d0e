"""The `devmem` command."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_SERVING: Final = frozenset({"mcp", "run", "web"})
"""Commands that run for a long time, or that call functions of the user in this process."""
_COLLECT_AFTER: Final = 50_000
"""Number of new objects after which the garbage collector looks for cycles; Python's default is 700."""
_BLAS_WAIT: Final = "16"
"""Binary logarithm of the clock cycles for which an idle thread of BLAS waits actively; the default is 26."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; `argv` stands in for the process's arguments."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # A stream that the caller has closed; the first free number is its own, which no other file must get.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the end
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


def _shorten_life() -> None:
    """Spare a process that runs one short command a quarter of its time.

    Importing modules makes many objects and hardly any cycles. At exit the interpreter would visit all objects again,
    several times, to free memory that the system takes back at once; what a command writes is written by then, since
    it closes what it opens. BLAS starts a thread on each further processor, which would wait actively for 25 ms.
    """
    gc.set_threshold(_COLLECT_AFTER)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", _BLAS_WAIT)
