"""Assertion rewriting for the suites, so that a failed `assert` shows its values; imported before them."""

from __future__ import annotations

import sys
from typing import Final

from devmem.errors import MissingExtraError

try:
    import pytest
except ImportError as error:
    raise MissingExtraError(feature="a suite of devmem.testing", package="pytest", extra="dev") from error

_SUITES: Final = (
    "devmem.testing.providers",
    "devmem.testing.stores",
    "devmem.testing.store_suite",
)

# A module that was imported directly cannot be rewritten any more.
pytest.register_assert_rewrite(*(name for name in _SUITES if name not in sys.modules))
