"""Haystack; the tests run where it is installed (`make test-hosts HOSTS=haystack`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem
from tests.adapters.asynchronous import pytest_configure, pytest_pyfunc_call

__all__ = ["memory", "pytest_configure", "pytest_pyfunc_call"]

collect_ignore_glob = [] if find_spec("haystack") else ["test_*.py"]


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory
