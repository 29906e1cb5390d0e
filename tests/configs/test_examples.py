"""Every example workflow loads, and those that need no service run."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.command_line import run_devmem

CONFIGS = Path(__file__).parents[2] / "configs"
NO_WORKFLOWS = {"design_template.yaml"}
NEED_A_KEY = {"openai.yaml", "mem0.yaml", "transaction.yaml"}
WITHOUT_AGENTS = {"stores.yaml"}
"""Stores that a program in Python opens."""
NOT_ALL_CARRIED_OUT = {"devall_article.yaml"}
"""DevAll's settings that devmem reads over are listed."""
READS_BESIDE = {"documents.yaml"}
"""Names files of the repository, which are not beside a copy."""
EXAMPLES = sorted(path for path in CONFIGS.rglob("*.yaml") if path.name not in NO_WORKFLOWS)
RUN = [path for path in EXAMPLES if path.name not in NEED_A_KEY | WITHOUT_AGENTS]
TOLD = {"chinese.yaml": ("发布会改到五月三日下午两点。", "发布会是什么时候?")}
USUAL = ("The launch moved to the third of May.", "When is the launch?")


@pytest.fixture
def copied(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, so that its files are made elsewhere, in an environment without keys."""
    for name in ("API_KEY", "MEM0_API_KEY", "BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path: Path = request.param
    return Path(shutil.copy(path, tmp_path))


def test_all_are_found() -> None:
    names = {path.name for path in EXAMPLES}
    assert names >= {"simple.yaml", "blackboard.yaml", "two_agents.yaml", "devall_article.yaml", "team.yaml"}
    assert names >= NEED_A_KEY | TOLD.keys()


@pytest.mark.parametrize("copied", EXAMPLES, ids=lambda path: path.name, indirect=True)
def test_an_example_is_right(copied: Path) -> None:
    result = run_devmem("validate", copied, code=None)
    assert result.exit_code == 0, result.output
    warnings = [line for line in result.stdout.splitlines() if line.startswith("warning")]
    assert bool(warnings) == (copied.name in NEED_A_KEY | NOT_ALL_CARRIED_OUT | READS_BESIDE)
    if copied.name in NEED_A_KEY:
        assert all("API_KEY is not set" in line for line in warnings)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_starts_with_its_schema(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    schema = first.removeprefix("# yaml-language-server: $schema=")
    assert schema != first
    assert Path(os.path.normpath(path.parent / schema)) == CONFIGS / "workflow.schema.json"


@pytest.mark.parametrize(
    "copied",
    [path for path in EXAMPLES if path.name not in NEED_A_KEY | WITHOUT_AGENTS],
    ids=lambda path: path.name,
    indirect=True,
)
def test_an_example_remembers_without_a_service(copied: Path) -> None:
    told, asked = TOLD.get(copied.name, USUAL)
    for text in (told, asked):
        result = run_devmem("run", copied, "--chat", "extractive", "--json", "--input", text, code=None)
        assert result.exit_code == 0, result.output
    recalled = [hit for node in json.loads(result.stdout)["nodes"] for hit in node["recalled"]]
    assert any(told in hit["text"] for hit in recalled)


@pytest.mark.parametrize("copied", [CONFIGS / "openai.yaml"], ids=["openai.yaml"], indirect=True)
def test_a_missing_key_is_said(copied: Path) -> None:
    result = run_devmem("run", copied, "--input", "Hello.", code=None)
    assert result.exit_code == 2
    assert "the variable API_KEY is not set" in result.stderr
