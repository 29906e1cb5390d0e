"""A few hundred acknowledged writes, each a commit: none is lost, not even one in a hundred."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from devmem import MemoryItem, WriteStatus
from devmem.storage import SqliteCollection

WRITES = 800


def test_every_acknowledged_write_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with closing(SqliteCollection(file, durability="normal")) as writer:
        for number in range(WRITES):
            (outcome,) = writer.add([MemoryItem(id=str(number), content_summary=f"note {number}")])
            assert outcome.status is WriteStatus.STORED
        with closing(SqliteCollection(file)) as reader:
            assert [item.id for item in reader.scan()] == [str(number) for number in range(WRITES)]
            assert reader.count() == WRITES
