"""Number of examples of tests with generated input: few in `make test`, five times as many in `make test-kits`."""

from __future__ import annotations

import os
from typing import Final

_TIMES: Final = int(os.environ.get("DEVMEM_TEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    """Return the number of examples of a test that has `count` of them in `make test`."""
    return count * _TIMES
