"""Stores of files whose folder is missing, empty, or where DevAll looks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Devmem

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
