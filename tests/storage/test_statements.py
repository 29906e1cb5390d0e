"""The SQL of SQLite stores gives no reason for warnings of newer Pythons."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import devmem.storage

FILES = sorted(Path(devmem.storage.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_statement_numbers_its_parameters(file: Path) -> None:
    """Python 3.12 deprecates `?1` with a sequence of values; names with a mapping mean the same."""
    assert re.findall(r"\?\d+", file.read_text(encoding="utf-8")) == []
