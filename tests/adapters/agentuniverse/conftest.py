"""agentUniverse's memories; these tests run where it is installed (`make test-hosts HOSTS=agentuniverse`)."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import devmem

collect_ignore_glob = [] if find_spec("agentuniverse") else ["test_*.py"]

if find_spec("agentuniverse"):
    from tools.hosts.shims.agentuniverse import prepare

    prepare()


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory
