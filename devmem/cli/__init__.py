"""The `devmem` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; `argv` stands in for the process's arguments."""
    from devmem.cli.app import app

    app(args=None if argv is None else list(argv), prog_name="devmem")
    sys.exit(0)
