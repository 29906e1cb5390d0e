"""`devmem validate`: findings for continuous integration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from devmem.cli.app import app
from devmem.config import Rule

from .conftest import Devmem

BAD = """\
memory:
  - {name: notes, type: simpel}
nodes:
  - {id: a, type: agent, config: {memories: [{name: notes}]}}
"""
DOUBTFUL = """\
memory:
  - {name: notes, type: simple}
nodes:
  - id: a
    type: agent
    config: {provider: openai, model: m, api_key: '${NOT_SET}', memories: [{name: notes}]}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workflow that is bad, one that has a warning, and one that is good."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad one.yaml").write_text(BAD, encoding="utf-8")
    (tmp_path / "doubtful.yaml").write_text(DOUBTFUL, encoding="utf-8")
    (tmp_path / "good.yaml").write_text("nodes: [{id: a, type: agent}]\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "options", "code"),
    [
        ("good.yaml", ["--fail-on", "note"], 0),
        ("doubtful.yaml", [], 0),
        ("doubtful.yaml", ["--fail-on", "warning"], 1),
        ("bad one.yaml", [], 2),
        ("bad one.yaml", ["--fail-on", "note"], 2),
        ("missing.yaml", [], 2),
    ],
)
@pytest.mark.parametrize("report_format", [[], ["--json"], ["--format", "sarif"]])
def test_the_exit_code_is_that_of_the_level(
    files: Path, devmem: Devmem, file: str, options: list[str], code: int, report_format: list[str]
) -> None:
    devmem("validate", file, *options, *report_format, code=code)


def test_json_has_every_finding(files: Path, devmem: Devmem) -> None:
    report = json.loads(devmem("validate", "bad one.yaml", "good.yaml", "--json", code=2).stdout)
    assert report["files"][1] == {"file": "good.yaml", "valid": True, "errors": 0, "warnings": 0, "notes": 0}
    assert report["files"][0]["valid"] is False
    finding = report["findings"][0]
    assert finding.keys() == {"level", "rule", "file", "line", "path", "message"}
    assert (finding["level"], finding["rule"], finding["line"]) == ("error", "unknown-name", 2)
    *_, warned, last = devmem("validate", "doubtful.yaml").stdout.splitlines()
    assert warned.startswith("warning: doubtful.yaml:6: nodes[0].config.api_key: the variable NOT_SET is not set")
    assert last.startswith("doubtful.yaml: OK: 1 store, 1 node (1 agent), 0 edges, 1 attachment, 1 warning")


def test_sarif_is_what_code_scanning_reads(files: Path, devmem: Devmem) -> None:
    """The required properties of a SARIF 2.1.0 log: version, tool, rules by id and index, messages and places."""
    log: dict[str, Any] = json.loads(devmem("validate", "bad one.yaml", "--format", "sarif", code=2).stdout)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "devmem"
    assert {rule["id"] for rule in rules} == {rule.value for rule in Rule}
    assert all(rule["shortDescription"]["text"].endswith(".") for rule in rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
    first = run["results"][0]
    assert first["message"]["text"].startswith("unknown store type 'simpel'")
    (location,) = first["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "bad%20one.yaml"},
        "region": {"startLine": 2},
    }
    assert location["logicalLocations"] == [{"fullyQualifiedName": "memory[0].type"}]
    outside = json.loads(devmem("validate", files / "doubtful.yaml", "--format", "sarif").stdout)
    place = outside["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": (files / "doubtful.yaml").as_uri()}


def test_help_lists_every_command_in_its_group_and_other_words_are_answered(devmem: Devmem) -> None:
    told = devmem("--help").stdout
    titles = [line.rstrip(":") for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[1:] == ["Remember and find", "Workflows", "Care", "Servers"]
    group: Any = typer.main.get_command(app)
    listed = [line.split()[0] for line in told.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    assert sorted(set(listed) & set(group.commands)) == sorted(group.commands)
    words = {"show": "list", "delete": "forget", "find": "search", "edit": "update", "restore": "backup --restore"}
    for word, name in (words | {"shown": "log --shown", "new": "init --plugin"}).items():
        assert f"No such command '{word}'; it is `devmem {name}`." in devmem(word, "x", code=2).stderr
