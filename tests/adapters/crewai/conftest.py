"""CrewAI's storage over a memory; these tests run where CrewAI is installed (`make test-hosts HOSTS=crewai`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem
from devmem.testing import HashEmbedder

collect_ignore_glob = [] if find_spec("crewai") else ["test_*.py"]


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=HashEmbedder()) as memory:
        yield memory
