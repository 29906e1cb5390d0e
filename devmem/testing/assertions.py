"""Makes a failed `assert` in the suites as telling as one in a test file; imported before them."""

from __future__ import annotations

import sys
from typing import Final

from devmem.errors import MissingExtraError

try:
    import pytest
except ImportError as error:
    raise MissingExtraError(feature="a suite of devmem.testing", package="pytest", extra="dev") from error

_SUITES: Final = (
    "devmem.testing.collections",
    "devmem.testing.collection_suite",
    "devmem.testing.stores",
    "devmem.testing.store_suite",
)

# Who imported a suite's module directly goes without.
pytest.register_assert_rewrite(*(name for name in _SUITES if name not in sys.modules))
