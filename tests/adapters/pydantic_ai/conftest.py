"""Memories for Pydantic AI; these tests run where it is installed (`make test-hosts HOSTS=pydantic_ai`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem

collect_ignore_glob = [] if find_spec("pydantic_ai") else ["test_*.py"]
if not find_spec("pydantic_ai_harness"):
    collect_ignore_glob.append("test_store.py")


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory
