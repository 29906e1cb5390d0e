"""Exchanges that nodes write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from devmem import MemoryContentSnapshot, MemoryWritePayload


@pytest.fixture
def exchange() -> Callable[..., MemoryWritePayload]:
    """Make what a node writes: what it was asked and what it answered."""

    def made(asked: str, answered: str, **fields: Any) -> MemoryWritePayload:
        return MemoryWritePayload(inputs_text=asked, output_snapshot=MemoryContentSnapshot(text=answered), **fields)

    return made
