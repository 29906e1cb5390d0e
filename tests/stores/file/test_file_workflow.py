"""The documentation answers questions; the example workflow runs; the command says what it does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from devmem.stores import MemoryQuery, StoreSetup
from devmem_stores.file import FileConfig, FileMemory
from tests.command_line import run_devmem

ROOT = Path(__file__).parents[3]
QUESTIONS = {
    "How do I embed every item again after the embedding model was changed?": ("docs/cli.md", "devmem reindex"),
    "What happens when the embedding provider does not answer?": ("docs/guide.md", "provider does not answer"),
    "Which stages does an agent go through?": ("docs/guide.md", "`pre`, `plan`, `gen`, `critique` and `finished`"),
    "How does an installed package register a store type with an entry point?": ("docs/plugins.md", "devmem.stores"),
    "Why is full text not searched with FTS5?": ("docs/decisions/search.md", "not FTS5"),
    "How many items does a blackboard keep?": ("docs/stores/blackboard.md", "max_items"),
    "What does the simple store's devall ranking score?": ("docs/stores/simple.md", "0.7 x cosine"),
    "How long does a durable update take with 10,000 items?": ("docs/benchmarks.md", "`update` p50"),
    "Which tables does the SQLite file have?": ("docs/decisions/storage.md", "| `vectors` |"),
}  # fmt: skip


@pytest.fixture(scope="module")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileMemory]:
    config = FileConfig.model_validate(
        {
            "index_path": str(tmp_path_factory.mktemp("index") / "docs.db"),
            "file_sources": [{"path": "docs", "file_types": ".md"}, {"path": "README.md"}],
            "embedding": {"provider": "minilm"},
        }
    )
    store = FileMemory(StoreSetup(name="docs", store_type="file", config=config, base_dir=ROOT))
    store.load()
    yield store
    store.close()


@pytest.mark.kit
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_documentation_answers(documentation: FileMemory, question: str) -> None:
    file, words = QUESTIONS[question]
    cited = []
    for hit in documentation.search(MemoryQuery(text=question, limit=3)):
        path, first, last = (hit.item.metadata[key] for key in ("path", "line_start", "line_end"))
        assert isinstance(first, int)
        assert isinstance(last, int)
        lines = (ROOT / str(path)).read_text(encoding="utf-8").splitlines()
        text = "\n".join(lines[first - 1 : last])
        shown = hit.item.content_summary.splitlines()[-1]
        assert shown in lines[last - 1], "the range ends where the chunk does"
        cited.append((path, re.search(re.escape(words), text, re.IGNORECASE) is not None))
    assert (file, True) in cited


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
    planned = devmem("index", workflow, "--dry-run")
    assert planned.stdout.splitlines() == [
        "+ ../docs/care.md",
        "+ ../README.md",
        "docs: 2 new, 0 unchanged; nothing was written",
    ]
    assert not (workflow.parent / ".devmem").exists()
    done = devmem("index", workflow, "docs")
    assert done.stdout.startswith("docs: 2 new, 0 unchanged; 2 files in 2 chunks, 0 embedded now")
    (docs / "care.md").rename(docs / "caring.md")
    (docs / "bad.md").write_bytes(b"\x00\x01")
    planned = devmem("index", workflow, "docs", "--dry-run")
    assert "> ../docs/care.md -> ../docs/caring.md" in planned.stdout
    done = devmem("index", workflow, "docs")
    assert "1 renamed" in done.stdout
    assert done.exit_code == 1
    assert "../docs/bad.md: holds zero bytes" in done.stderr
    (docs / "bad.md").unlink()
    assert "every file is read again" in devmem("index", workflow, "docs", "--rebuild", "--dry-run").stderr
    assert devmem("index", workflow, "docs", "--rebuild").exit_code == 0


def test_index_watches_until_it_is_interrupted(workflow: Path) -> None:
    command = [sys.executable, "-m", "devmem", "index", str(workflow), "docs", "--watch"]
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
