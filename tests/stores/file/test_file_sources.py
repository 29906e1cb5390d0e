"""Which files are indexed, what is said of those that cannot be, and what a configuration may be."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from devmem.errors import Level
from devmem.workflow import check_workflow
from devmem_stores.file import FileConfig, FileMemory
from tests.cli.conftest import devmem

from .conftest import Folder, found, names


def loaded(folder: Folder, *sources: object) -> list[str]:
    return names(folder.load(file_sources=list(sources)))


def test_files_and_patterns(folder: Folder) -> None:
    folder.write("deep/a.txt", "x")
    folder.write("deep/b.md", "x")
    assert loaded(folder, {"path": "docs/guide.md"}) == ["docs/guide.md"]
    assert loaded(folder, {"path": "docs/**/*.md"}) == ["docs/deep/b.md", "docs/guide.md"]
    assert loaded(folder, {"path": str(folder.docs / "d*" / "?.txt")}) == [str(folder.docs / "deep/a.txt")]


def test_excluded_and_ignored_files_are_left_out(folder: Folder) -> None:
    for name in ("drafts/a.txt", "b.txt", "build/c.txt", "keep/build/d.txt", "keep/e.log", "keep/f.log"):
        folder.write(name, "x")
    folder.write(".gitignore", "build/\n*.log\n")
    folder.write("keep/.gitignore", "!f.log\n")
    everything = loaded(folder, {"path": "docs"})
    assert len(everything) == 7
    assert loaded(folder, {"path": "docs", "gitignore": True, "exclude": ["drafts", "/b.txt"]}) == [
        "docs/guide.md",
        "docs/keep/f.log",
    ]


def test_the_repository_above_is_asked_too(folder: Folder) -> None:
    (folder.base / ".git").mkdir()
    (folder.base / ".gitignore").write_text("docs/secret.txt\n")
    folder.write("secret.txt", "x")
    assert loaded(folder, {"path": "docs", "gitignore": True}) == ["docs/guide.md"]


def test_links_that_leave_the_source_are_not_followed(folder: Folder) -> None:
    outside = folder.base / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret number")
    (folder.docs / "link.txt").symlink_to(outside / "secret.txt")
    (folder.docs / "folder").symlink_to(outside)
    (folder.docs / "loop").symlink_to(folder.docs)
    (folder.docs / "dangling.txt").symlink_to(folder.docs / "nothing.txt")
    (folder.docs / "same.md").symlink_to(folder.docs / "guide.md")
    assert loaded(folder, {"path": "docs"}) == ["docs/guide.md"]
    (outside / "more").symlink_to(folder.docs)
    assert loaded(folder, {"path": "docs/**/*.txt"}, {"path": "docs/guide.md"}) == ["docs/guide.md"]


def test_the_index_never_indexes_itself(folder: Folder) -> None:
    kinds = [".txt", ".md", ".faiss", ".lock"]
    settings: dict[str, Any] = {
        "index_path": "docs/index.txt",
        "file_sources": [{"path": "docs", "file_types": kinds}],
    }
    store = folder.load(**settings)
    count = store.count()
    for _ in range(3):
        store = folder.reload(store, **settings)
    assert names(store) == ["docs/guide.md"]
    assert store.count() == count


def test_what_is_not_there_is_said_and_the_rest_is_indexed(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.write("bad.txt", b"caf\xe9")
    store = folder.load(
        file_sources=[{"path": "nowhere"}, {"path": "*.nothing"}, {"path": "docs", "encoding": "utf-8"}]
    )
    assert store.report is not None
    assert store.report.problems.keys() == {"nowhere", "*.nothing", "docs/bad.txt"}
    assert "is not utf-8" in store.report.problems["docs/bad.txt"]
    assert "docs/bad.txt" in caplog.text
    assert found(store, "filter")[0].startswith("docs/guide.md")
    before = len(caplog.records)
    store.index()
    assert store.report.problems.keys() == {"nowhere", "*.nothing", "docs/bad.txt"}
    assert len(caplog.records) == before, "a problem is said once"


@pytest.mark.parametrize(
    ("call", "name", "said"),
    [("open", "guide.md", "cannot be read: Permission denied"), ("scandir", "deep", "cannot be listed")],
)
def test_what_cannot_be_read_keeps_what_is_known_of_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str, name: str, said: str
) -> None:
    folder.write("deep/a.txt", "x")
    store = folder.load()
    chunks, real = store.count(), getattr(os, call)
    folder.write("guide.md", "changed")

    def refuse(path: object, *rest: Any) -> Any:
        if str(path).endswith(name):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *rest)

    monkeypatch.setattr(os, call, refuse)
    report = store.index()
    assert said in report.problems[f"docs/{name}"]
    assert report.deleted == ()
    assert names(store) == ["docs/deep/a.txt", "docs/guide.md"]
    assert call == "scandir" or store.count() == chunks


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


WORKFLOW = """
memory:
  - name: docs
    type: file
    config:
      {config}
nodes:
  - id: reader
    type: agent
    config:
      memories:
        - {{name: docs, write: {write}}}
"""


def config(**settings: object) -> FileConfig:
    return FileConfig.model_validate({"file_sources": {"path": "docs"}} | settings)


def test_the_index_of_a_json_path_lives_beside_it() -> None:
    made = config(index_path="memory/docs.json")
    assert (made.index_path, made.memory_path) == ("memory/docs.json", "memory/docs.db")


@pytest.mark.parametrize(
    "settings",
    [
        {"file_sources": []},
        {"file_sources": {"path": ""}},
        {"file_sources": {"path": "docs", "encoding": "utf-9"}},
        {"file_sources": {"path": "docs", "file_types": ["."]}},
        {"chunk_size": 100, "chunk_overlap": 51},
        {"chunk_size": 0},
        {"chunk_unit": "words"},
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        config(**settings)


def test_writing_to_it_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WORKFLOW.format(config="file_sources: [{path: docs}]", write="true"))
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a")
    (warning,) = (one for one in check_workflow(file).findings if one.level is Level.WARNING)
    assert "stores of type 'file' are read-only" in str(warning)
    file.write_text(WORKFLOW.format(config="file_sources: [{path: docs}]", write="false"))
    assert not [one for one in check_workflow(file).findings if one.level is Level.WARNING]


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
