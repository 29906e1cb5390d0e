"""A source that is missing or empty keeps what is indexed of it: a disk that is not mounted looks like this."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devmem_stores.file import FileMemory
from tests.cli.conftest import devmem

from .conftest import Folder, found, names

__all__ = ["devmem"]


def _away(folder: Folder) -> None:
    shutil.rmtree(folder.docs)


def _emptied(folder: Folder) -> None:
    shutil.rmtree(folder.docs)
    folder.docs.mkdir()


def _other_files(folder: Folder) -> None:
    _emptied(folder)
    folder.write("picture.png", b"\x89PNG")


@pytest.mark.parametrize("lose", [_away, _emptied, _other_files])
@pytest.mark.parametrize("source", ["docs", "docs/*.md", "docs/guide.md", "."])
def test_what_is_indexed_of_a_source_without_files_stays(
    folder: Folder, caplog: pytest.LogCaptureFixture, source: str, lose: object
) -> None:
    store = folder.load(file_sources={"path": source, "file_types": "md"})
    chunks = store.count()
    lose(folder)  # type: ignore[operator]
    assert store.plan().deleted == ()
    store = folder.reload(store, file_sources={"path": source, "file_types": "md"})
    assert store.report is not None
    assert store.report.deleted == ()
    assert "its 1 indexed file(s) are kept" in store.report.problems[source]
    assert "--drop-missing" in store.report.problems[source]
    assert source in caplog.text
    assert store.count() == chunks
    assert found(store, "where does the key hang?", 1) == ["docs/guide.md:5-7"]
    folder.write("guide.md", "The key hangs in the hall.\n")
    store = folder.reload(store, file_sources={"path": source, "file_types": "md"})
    assert store.report is not None
    assert not store.report.problems
    assert found(store, "where does the key hang?", 1) == ["docs/guide.md:1"]


def test_another_source_goes_on_and_its_missing_files_are_dropped(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "a.txt").write_text("the pump")
    gone = folder.write("gone.txt", "the valve")
    sources = [{"path": "docs"}, {"path": "disk"}]
    store = folder.load(file_sources=sources)
    shutil.rmtree(tmp_path / "disk")
    gone.unlink()
    report = store.index()
    assert report.deleted == ("docs/gone.txt",)
    assert report.problems.keys() == {"disk"}
    assert names(store) == ["disk/a.txt", "docs/guide.md"]


def _dropped(store: FileMemory) -> None:
    assert store.plan(drop_missing=True).deleted == ("docs/guide.md",)
    assert store.index(drop_missing=True).deleted == ("docs/guide.md",)
    assert names(store) == []


def test_files_of_an_empty_source_are_dropped_on_request(folder: Folder) -> None:
    store = folder.load()
    _emptied(folder)
    _dropped(store)
    assert store.index().problems == {}


def test_files_of_a_source_that_is_no_longer_configured_are_dropped(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.txt").write_text("the pump")
    store = folder.load()
    _away(folder)
    store = folder.reload(store, file_sources="more")
    assert names(store) == ["more/a.txt"]
