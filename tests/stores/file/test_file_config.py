"""Configuration of a `file` store: valid values, and errors for the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from devmem.errors import Level
from devmem.workflow import check_workflow
from devmem_stores.file import FileConfig

from .conftest import Folder, names

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
