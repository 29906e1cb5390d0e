"""Providers of Microsoft Agent Framework; they run where it is installed (`make test-hosts HOSTS=agent_framework`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem

collect_ignore_glob = [] if find_spec("agent_framework") else ["test_*.py"]


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory
