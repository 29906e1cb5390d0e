"""DevAll's index is read once: embeddings of equal texts are kept when the model is the same."""

from __future__ import annotations

import json

import pytest

from devmem.testing import HashEmbedder

from .conftest import Folder, names

TEXT = "The boiler stands in the cellar."
AS_DEVALL_EMBEDS_IT = "The boiler stands in the cellar"


def old_index(folder: Folder, embedder: HashEmbedder) -> dict[str, object]:
    content = {
        "id": "abc_0",
        "content_summary": TEXT,
        "metadata": {"source_type": "file", "file_path": "docs/a.txt", "chunk_index": 0},
        "embedding": [2 * float(value) for value in embedder.vector(AS_DEVALL_EMBEDS_IT)],
        "timestamp": 1.0,
        "input_snapshot": None,
        "output_snapshot": None,
    }
    return {
        "file_metadata": {"docs/a.txt": {"file_hash": "x", "chunks_count": 1}},
        "contents": [content, content | {"id": "abc_1", "content_summary": "zeros", "embedding": [0.0] * 32}],
        "config": {"chunk_size": 500, "chunk_overlap": 50},
    }


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_embeddings_of_the_same_model_are_kept(folder: Folder, end: str) -> None:
    """DevAll keeps a short file whole, with the line break at its end."""
    assert isinstance(folder.embedder, HashEmbedder)
    file = folder.base / "index.json"
    raw = old_index(folder, folder.embedder)
    raw["contents"] = [raw["contents"][0] | {"content_summary": TEXT + end}]  # type: ignore[index]
    file.write_text(json.dumps(raw))
    before = file.read_bytes()
    folder.write("a.txt", TEXT + end)
    store = folder.load(index_path="index.json")
    assert names(store) == ["docs/a.txt", "docs/guide.md"]
    embedded = folder.embedded
    assert embedded.count(AS_DEVALL_EMBEDS_IT) == 1, "to compare the models"
    assert TEXT not in embedded
    assert store.report is not None
    assert store.report.embedded == store.count() - 1
    assert file.read_bytes() == before
    assert (folder.base / "index.db").exists()
    folder.reload(store, index_path="index.json")
    assert folder.embedded == []


def test_embeddings_of_another_model_are_not(folder: Folder) -> None:
    (folder.base / "index.json").write_text(json.dumps(old_index(folder, HashEmbedder(32, name="other"))))
    raw = json.loads((folder.base / "index.json").read_text())
    raw["contents"][0]["embedding"][3] += 2.0
    (folder.base / "index.json").write_text(json.dumps(raw))
    folder.write("a.txt", TEXT)
    store = folder.load(index_path="index.json")
    assert store.report is not None
    assert store.report.embedded == store.count()
