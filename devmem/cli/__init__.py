"""The `devmem` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; `argv` stands in for the process's arguments."""
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
