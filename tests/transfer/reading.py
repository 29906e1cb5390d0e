"""Data files as tests read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from devmem import MemoryItem
from devmem.transfer.importing.formats import open_data, read_records


def items_of(records: Iterable[object]) -> list[MemoryItem]:
    return [record for record in records if isinstance(record, MemoryItem)]


def items(path: Path, **options: Any) -> list[MemoryItem]:
    return items_of(open_data(path, **options).records)


def strict_items(path: Path, data_format: str = "auto") -> list[MemoryItem]:
    """Return what `read_records` reads, which refuses the file for one record that cannot be used."""
    return items_of(read_records(path, data_format))


def summaries(records: Iterable[object]) -> list[str]:
    return [item.content_summary for item in items_of(records)]
