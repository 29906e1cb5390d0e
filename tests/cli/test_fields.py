"""Fields of the metadata that are searched beside the text, and sources of files whose folder is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Devmem, one_paragraph


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "notes.db"


def found(devmem: Devmem, place: Path, query: str) -> list[tuple[str, str | None]]:
    hits = json.loads(devmem("search", place, query, "--json").stdout)
    return [(hit["text"], hit.get("field")) for hit in hits if hit["lexical"]]


def test_an_item_is_added_with_its_fields(devmem: Devmem, place: Path) -> None:
    devmem("add", place, "We met at noon.", "--metadata", "title=Launch", "--field", "title")
    assert found(devmem, place, "launch") == [("We met at noon.", "title")]
    assert "… title: Launch" in devmem("search", place, "launch").stdout


def test_an_item_gets_other_fields(devmem: Devmem, place: Path) -> None:
    """`none` are not fields, also against those of the store."""
    devmem("add", place, "We met at noon.", "--id", "1", "--metadata", "title=Launch", "--metadata", "town=Oslo")
    assert "nothing to change" in one_paragraph(devmem("update", place, "1", code=2))
    both = devmem("update", place, "1", "--field", "none", "--field", "title", code=2)
    assert "--field none cannot be combined with other fields" in one_paragraph(both)
    devmem("update", place, "1", "--field", "title", "--field", "town")
    assert found(devmem, place, "oslo") == [("We met at noon.", "town")]
    devmem("update", place, "1", "--field", "none")
    assert found(devmem, place, "oslo") == found(devmem, place, "launch") == []
    devmem("reindex", place, "--field", "title")
    devmem("add", place, "We met again.", "--metadata", "title=Launch", "--field", "none")
    assert found(devmem, place, "launch") == []


def test_an_import_brings_changed_metadata(devmem: Devmem, place: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    for title in ("Launch", "Review"):
        data.write_text(json.dumps({"text": "We met at noon.", "id": "1", "metadata": {"title": title}}) + "\n")
        devmem("import", place, data, "--field", "title")
    assert found(devmem, place, "review") == [("We met at noon.", "title")]
    assert found(devmem, place, "launch") == []


def test_the_encoding_of_a_table_is_named(devmem: Devmem, place: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.csv"
    data.write_bytes("text\nŞifre değişti.\n".encode("cp1254"))
    devmem("import", place, data, "--encoding", "cp1254")
    assert found(devmem, place, "değişti") == [("Şifre değişti.", None)]
    refused = one_paragraph(devmem("import", place, data, "--encoding", "base64", code=2))
    assert "--encoding 'base64': unknown encoding." in refused


def test_a_file_is_searched_by_other_fields(devmem: Devmem, place: Path) -> None:
    """Later items are found by them too, without naming them again."""
    devmem("add", place, "We met at noon.", "--metadata", "title=Launch")
    devmem("reindex", place, "--field", "title")
    assert found(devmem, place, "launch") == [("We met at noon.", "title")]
    devmem("add", place, "Nobody came.", "--metadata", "title=Review")
    assert found(devmem, place, "review") == [("Nobody came.", "title")]


def test_an_export_brings_the_fields_of_its_store(devmem: Devmem, place: Path, tmp_path: Path) -> None:
    """A new store adds items that are found likewise; another one keeps its own, and a reindex knows the export's."""
    devmem("add", place, "We met at noon.", "--metadata", "title=Launch", "--metadata", "town=Oslo")
    devmem("reindex", place, "--field", "title")
    devmem("export", place, "--output", tmp_path / "notes.json")
    for name, first in (("new.db", False), ("other.db", True)):
        target = tmp_path / name
        if first:
            devmem("add", target, "Tea at three.")
        devmem("import", target, tmp_path / "notes.json")
        assert found(devmem, target, "launch") == [("We met at noon.", "title")]
        devmem("add", target, "The last call.", "--metadata", "title=Budget")
        assert found(devmem, target, "budget") == ([] if first else [("The last call.", "title")])
        devmem("reindex", target, "--field", "town")
        assert found(devmem, target, "launch") == []
        assert found(devmem, target, "oslo") == [("We met at noon.", "town")]


def test_an_export_with_fields_that_are_none_is_refused(devmem: Devmem, place: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.json"
    export = {"format": "devmem-export", "version": 1, "fields": ["a..b"], "items": [], "count": 0}
    path.write_text(json.dumps(export), encoding="utf-8")
    refused = one_paragraph(devmem("import", place, path, code=2))
    assert "notes.json:1: `fields`: expected a list of paths such as 'title', found ['a..b']" in refused


@pytest.mark.parametrize("command", [["add", "text"], ["reindex"]])
def test_what_is_no_path_is_refused(devmem: Devmem, place: Path, command: list[str]) -> None:
    devmem("add", place, "We met at noon.")
    name, *words = command
    refused = one_paragraph(devmem(name, place, *words, "--field", "a..b", code=2))
    assert "--field 'a..b': expected a path such as title" in refused


DEMO = """\
graph:
  memory:
    - name: docs
      type: file
      config:
        index_path: tests/pages/index.json
        file_sources: [{path: tests/pages, file_types: [.md], recursive: false}]
  start: [a]
  nodes:
    - id: a
      type: agent
      config: {provider: extractive, name: x, memories: [{name: docs, retrieve_stage: [gen]}]}
  edges: []
"""


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A document of DevAll in a folder of its own, and a working directory beside it."""
    (tmp_path / "instances").mkdir()
    (tmp_path / "host").mkdir()
    monkeypatch.chdir(tmp_path / "host")
    path = tmp_path / "instances" / "demo.yaml"
    path.write_text(DEMO)
    return path


def test_the_sources_of_devall_start_at_the_working_directory(demo: Path, devmem: Devmem) -> None:
    pages = Path("tests/pages")
    pages.mkdir(parents=True)
    (pages / "launch.md").write_text("# Launch\n\nAnn moved the launch to June 2nd.\n")
    result = devmem("run", demo, "--input", "When is the launch?")
    assert "June 2nd" in result.stdout
    assert "there is no" not in result.stderr
    assert (pages / "index.db").exists()
    assert not (demo.parent / "tests").exists()


def test_a_missing_folder_is_said_with_both_places(demo: Path, devmem: Devmem) -> None:
    told = devmem("validate", demo).stdout
    assert f"there is no {str(demo.parent / 'tests/pages')!r} and no {str(Path.cwd() / 'tests/pages')!r}" in told


def test_a_run_says_it_and_makes_no_folder(demo: Path, devmem: Devmem) -> None:
    result = devmem("run", demo, "--input", "When is the launch?", code=2)
    told = " ".join(result.stderr.split())
    assert "a source that does not exist" in told
    assert not Path("tests").exists()
    assert not (demo.parent / "tests").exists()


def test_an_empty_folder_is_said(demo: Path, devmem: Devmem) -> None:
    Path("tests/pages").mkdir(parents=True)
    assert f"the folder {str(Path.cwd() / 'tests/pages')!r} is empty" in devmem("validate", demo).stdout
