"""Configuration of a `file` store: valid values, and errors for the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from devmem import ConfigError, load_workflow
from devmem_stores.file import FileConfig

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


def test_one_source_and_one_ending_need_no_list() -> None:
    made = config(file_sources={"path": "docs", "file_types": "MD", "exclude": "drafts/"})
    (source,) = made.file_sources
    assert (source.file_types, source.recursive, source.encoding, source.exclude) == ([".md"], True, None, ["drafts/"])


def test_the_index_falls_back_to_memory_path() -> None:
    assert config(memory_path="a.db").memory_path == "a.db"
    assert config(index_path="b.db", memory_path="a.db").memory_path == "b.db"
    assert config().memory_path is None


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
    (warning,) = load_workflow(file).warnings
    assert "stores of type 'file' are read-only" in str(warning)
    file.write_text(WORKFLOW.format(config="file_sources: [{path: docs}]", write="false"))
    assert load_workflow(file).warnings == ()


def test_every_problem_names_its_place(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(WORKFLOW.format(config="{file_sources: [{pth: docs}], chunk_sze: 3}", write="false"))
    with pytest.raises(ConfigError) as error:
        load_workflow(file)
    assert "chunk_sze" in str(error.value)
    assert "pth" in str(error.value)
