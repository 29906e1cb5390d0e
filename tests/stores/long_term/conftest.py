"""Long-term stores that open the same file each time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from devmem_stores.long_term import LongTermMemory
from tests.conftest import MakeStore

OpenStore = Callable[..., LongTermMemory]


@pytest.fixture
def open_store(make_store: MakeStore) -> OpenStore:
    return partial(make_store, LongTermMemory, memory_path="memory.db")
