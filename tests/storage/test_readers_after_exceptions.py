"""A reader that is interrupted in the middle of a statement does not leave the next one in an old snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.storage import SearchQuery, SqliteCollection
from devmem.storage.sqlite import rows


def test_a_search_that_was_interrupted_while_it_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = SqliteCollection(tmp_path / "store.db")
    collection.add([MemoryItem(id=f"{number}", content_summary=f"tea {number}") for number in range(5)])

    def interrupted(*_: object) -> MemoryItem:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rows, "load_item_json", interrupted)
        # The exception is kept, and with it the statement that was not read to its end.
        with pytest.raises(KeyboardInterrupt) as kept:
            collection.search(SearchQuery(text="tea"))
    collection.add([MemoryItem(id="new", content_summary="coffee")])
    assert [hit.item.id for hit in collection.search(SearchQuery(text="coffee"))] == ["new"]
    assert kept.value.__traceback__ is not None
    collection.close()
