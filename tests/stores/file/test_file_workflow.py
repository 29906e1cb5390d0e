"""The example workflow runs; the command says what it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from tests.command_line import run_devmem

ROOT = Path(__file__).parents[3]


def devmem(*arguments: object) -> Result:
    return run_devmem(*arguments, code=None)


@pytest.fixture
def workflow(tmp_path: Path) -> Path:
    """A copy of the example beside a little documentation, searched by words so that no model is loaded."""
    text = (ROOT / "configs/documents.yaml").read_text(encoding="utf-8")
    (tmp_path / "configs").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# Boiler\n\nIt hums.\n")
    (tmp_path / "docs/care.md").write_text("# Care\n\nClean the filter of the boiler every spring.\n")
    file = tmp_path / "configs/documents.yaml"
    file.write_text(text.replace("embedding: {provider: minilm}", "embedding: null"))
    return file


def test_the_example_answers_from_documents_and_notes(workflow: Path) -> None:
    assert devmem("run", workflow, "--input", "Ann cleaned the filter on 3 May.").exit_code == 0
    result = devmem("run", workflow, "--json", "--input", "When is the filter of the boiler cleaned?")
    assert result.exit_code == 0, result.output
    for node in json.loads(result.stdout)["nodes"]:
        texts = [hit["text"] for hit in node["recalled"]]
        assert any(text.startswith("[../docs/care.md:1-3]") for text in texts)
        assert any("Ann cleaned the filter" in text for text in texts)


def test_index_says_what_it_does(workflow: Path) -> None:
    docs = workflow.parent.parent / "docs"
    planned = devmem("reindex", workflow, "--dry-run")
    assert planned.stdout.splitlines() == [
        "+ ../docs/care.md",
        "+ ../README.md",
        "docs: 2 new, 0 unchanged; nothing was written",
    ]
    assert not (workflow.parent / ".devmem").exists()
    done = devmem("reindex", workflow, "docs")
    assert done.stdout.startswith("docs: 2 new, 0 unchanged; 2 files in 2 chunks, 0 embedded now")
    (docs / "care.md").rename(docs / "caring.md")
    (docs / "bad.md").write_bytes(b"\x00\x01")
    planned = devmem("reindex", workflow, "docs", "--dry-run")
    assert "> ../docs/care.md -> ../docs/caring.md" in planned.stdout
    done = devmem("reindex", workflow, "docs")
    assert "1 renamed" in done.stdout
    assert done.exit_code == 1
    assert "../docs/bad.md: holds zero bytes" in done.stderr
    (docs / "bad.md").unlink()
    assert "every file is read again" in devmem("reindex", workflow, "docs", "--force", "--dry-run").stderr
    assert devmem("reindex", workflow, "docs", "--force").exit_code == 0


def test_index_watches_until_it_is_interrupted(workflow: Path) -> None:
    command = [sys.executable, "-m", "devmem", "reindex", str(workflow), "docs", "--watch"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert "2 new" in run.stdout.readline()
        assert "following changes" in run.stderr.readline()
        (workflow.parent.parent / "docs/new.md").write_text("# New\n\nwords\n")
        assert run.stdout.readline().strip() == "+ ../docs/new.md"
        run.send_signal(2)
        assert run.wait(timeout=20) == 130
