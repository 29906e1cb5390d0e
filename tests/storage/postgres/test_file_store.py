"""A `file` store in a database: index and record of the files are there, and no file is beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devmem.stores import Embedder, StoreSetup
from devmem.testing import HashEmbedder
from devmem_stores.file import FileConfig, FileMemory

pytestmark = pytest.mark.postgres

OpenFiles = Callable[..., FileMemory]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(6):
        (folder / f"page{number}.md").write_text(f"# Page {number}\n\nThe boiler of house {number} is blue.\n")
    return folder


@pytest.fixture
def open_files(store_url: str, tmp_path: Path, docs: Path) -> Iterator[OpenFiles]:
    opened: list[FileMemory] = []

    def open_files(embedder: Embedder | None = None) -> FileMemory:
        config = {
            "index_path": store_url, "file_sources": {"path": str(docs)}, "embedding": {"provider": "openai"}
        }  # fmt: skip
        setup = StoreSetup(
            name="docs",
            store_type="file",
            config=FileConfig.model_validate(config),
            base_dir=tmp_path,
            session_dir=tmp_path / "session",
            open_embedder=lambda _: embedder or HashEmbedder(32),
        )
        store = FileMemory(setup)
        opened.append(store)
        return store

    yield open_files
    for store in opened:
        store.close()
    assert {file.parent for file in tmp_path.rglob("*") if file.is_file()} <= {docs}


def chunks(store: FileMemory) -> list[str]:
    return sorted(item.content_summary for item in store.collection.scan())


def test_machines_that_index_at_once_agree(open_files: OpenFiles) -> None:
    stores = [open_files() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(FileMemory.index, stores))
    assert sorted(report.stored for report in reports) == [0, 0, 0, 6]
    assert len(chunks(stores[0])) == 6
