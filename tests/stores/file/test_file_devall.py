"""DevAll's index is left alone: the index is kept beside it."""

from __future__ import annotations

from .conftest import Folder, names


def test_the_index_of_devall_is_left_alone(folder: Folder) -> None:
    file = folder.base / "index.json"
    file.write_text('{"file_metadata": {}, "contents": [], "config": {"chunk_size": 500}}')
    before = file.read_bytes()
    store = folder.load(index_path="index.json")
    assert names(store) == ["docs/guide.md"]
    assert file.read_bytes() == before
    assert (folder.base / "index.db").exists()
    assert folder.embedded
    folder.reload(store, index_path="index.json")
    assert folder.embedded == []
