"""Files in a memory without a model."""

from __future__ import annotations

import pytest

import devmem
from devmem.adapters.files import FileCommands


@pytest.fixture
def commands(memory: devmem.Memory) -> FileCommands:
    return FileCommands(memory)
