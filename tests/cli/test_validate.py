"""`devmem validate`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

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
