"""Memories that are searched by words alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import devmem


@pytest.fixture
def memory() -> Iterator[devmem.Memory]:
    with devmem.open(":memory:", embedding=None) as opened:
        yield opened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"
