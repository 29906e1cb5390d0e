"""`devmem validate`, for people and for continuous integration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from devmem.cli.app import app
from devmem.config import Rule
from devmem.errors import install_command
from tests.cases import cases

from .conftest import Devmem, one_paragraph


def test_a_good_workflow_is_counted(workflow: Path, devmem: Devmem) -> None:
    result = devmem("validate", workflow)
    *notes, last = result.stdout.splitlines()
    assert last == f"{workflow}: OK: 3 stores, 3 nodes (2 agents), 2 edges, 3 attachments, 2 notes"
    assert [note.split(": ", 2)[-1] for note in notes] == [
        "memory[1].name: the store 'board' is written, but no agent reads it",
        "memory[2].name: no agent attaches the store 'passing'",
    ]


def test_every_problem_of_every_file_is_shown(workflow: Path, devmem: Devmem, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(
        "memory:\n  - name: notes\n    type: simpel\n"
        "nodes:\n  - id: a\n    type: agent\n    config:\n      memories:\n        - {name: notes, top_k: -1}\n",
        encoding="utf-8",
    )
    result = devmem("validate", bad, workflow, tmp_path / "missing.yaml", code=2)
    lines = result.stdout.splitlines()
    assert any(line.startswith(f"{bad}:3: memory[0].type: unknown store type 'simpel'") for line in lines)
    assert any(line.startswith(f"{bad}:9: nodes[0].config.memories[0].top_k: ") for line in lines)
    assert any(line.startswith(f"{workflow}: OK") for line in lines)
    assert any("missing.yaml" in line for line in lines)


def test_a_provider_that_only_a_run_needs_is_a_warning(devmem: Devmem, tmp_path: Path) -> None:
    """Workflows of hosts name models that only they have; a misspelt name and a store's model are errors."""
    path = tmp_path / "team.yaml"
    path.write_text(
        "graph:\n  nodes:\n"
        "    - {id: a, type: agent, config: {provider: gemini, name: gemini-3}}\n"
        "    - {id: b, type: agent, config: {provider: , name: }}\n",
        encoding="utf-8",
    )
    said = devmem("validate", path).stdout
    assert "warning: " in said
    assert "`devmem run` does not know the chat provider 'gemini'" in said
    path.write_text("nodes: [{id: a, type: agent, config: {provider: opnai, name: m}}]\n", encoding="utf-8")
    assert "did you mean 'openai'" in devmem("validate", path, code=2).stdout
    path.write_text("memory: [{name: n, type: brain, config: {llm: {provider: gemini, model: m}}}]\n", encoding="utf-8")
    assert "unknown chat provider 'gemini'" in devmem("validate", path, code=2).stdout


def test_a_place_that_cannot_be_used_is_found_without_opening_it(devmem: Devmem, tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    for kind, url, wanted in (
        (
            "simple",
            "postgres://ann:hunter2@host/db?connections=0",
            "connections=0 in the URL cannot be used: Input should be greater than or equal to 1",
        ),
        ("simple", "postgresq://ann:hunter2@host/db", "no installed package opens 'postgresq' URLs; did you mean"),
        ("brain", "json://notes.json", "a file's URL has three slashes"),
    ):
        path.write_text(f"memory:\n  - name: a\n    type: {kind}\n    config:\n      memory_path: {url}\n")
        result = devmem("validate", path, code=2)
        assert f"{path}:5: memory[0].config.memory_path: " in result.stdout
        assert wanted in result.stdout
        assert "hunter2" not in result.output


@pytest.mark.parametrize(("kind", "config", "key"), cases("cli_validate", "a_path_below_the_home_of_no_user"))
def test_a_path_below_the_home_of_no_user(kind: str, config: str, key: str, devmem: Devmem, tmp_path: Path) -> None:
    path = tmp_path / "team.yaml"
    path.write_text(f"memory:\n  - name: notes\n    type: {kind}\n    config:\n      {config}\n", encoding="utf-8")
    lines = devmem("validate", path, code=2).stdout.splitlines()
    expected = f"{path}:5: memory[0].config.{key}: the home folder ~no-such-user is unknown"
    assert any(line.startswith(expected) for line in lines)
    assert expected in devmem("search", path, "notes", "x", code=2).stderr


def test_a_package_that_a_place_needs_is_named_with_its_extra(
    devmem: Devmem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "team.yaml"
    path.write_text("memory: [{name: a, type: simple, config: {memory_path: 'postgresql://host/db'}}]\n")
    for module in [name for name in sys.modules if name.partition(".")[0] in ("psycopg", "pgvector")]:
        monkeypatch.delitem(sys.modules, module)
    for module in ("location", "url"):
        monkeypatch.delitem(sys.modules, f"devmem.storage.postgres.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    shown = devmem("validate", path).stdout
    assert f"warning: {path}:1: memory[0].config.memory_path: PostgreSQL needs the package 'psycopg'" in shown
    assert install_command("postgres") in shown


def test_the_schema_is_printed_or_written(devmem: Devmem, tmp_path: Path) -> None:
    printed = json.loads(devmem("validate", "--format", "schema").stdout)
    assert {"memory", "nodes", "graph"} <= printed["properties"].keys()
    path = tmp_path / "schema.json"
    devmem("validate", "--format", "schema", "--output", path)
    assert json.loads(path.read_text(encoding="utf-8")) == printed
    nowhere = devmem("validate", "--format", "schema", "--output", tmp_path / "no" / "x.json", code=2)
    assert "No such file" in one_paragraph(nowhere)


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
