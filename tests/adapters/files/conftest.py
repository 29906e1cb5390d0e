"""Files in a memory without a model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import devmem
from devmem.adapters.files import FileCommands


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as memory:
        yield memory


@pytest.fixture
def commands(memory: devmem.Memory) -> FileCommands:
    return FileCommands(memory)
