"""Subgraphs: read as strictly as the graph around them, whose stores they inherit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from devmem.config import Rule, Subgraph, check_workflow
from devmem.errors import Finding, Level
from tests.cases import cases

from .conftest import Read
from .fakes import FakeTypes

NOTES = "memory: [{name: notes, type: notes}]\n"


def _workflow(config: str) -> str:
    return f"{NOTES}nodes:\n- id: inner\n  type: subgraph\n  config: {config}\n"


def _inline(graph: str) -> str:
    return _workflow(f"{{type: config, config: {graph}}}")


def _agent(store: str) -> str:
    return f"{{id: a, type: agent, config: {{memories: [{store}]}}}}"


def _named(path: str) -> str:
    return _workflow(f"{{type: file, config: {{path: {path}}}}}")


def _node(path: str) -> str:
    return f"{{id: again, type: subgraph, config: {{type: file, config: {{path: {path}}}}}}}"


def test_an_inline_subgraph_inherits_the_stores_around_it(read: Read) -> None:
    workflow = read(_inline(f"{{nodes: [{_agent('notes')}], edges: []}}"))
    graph = workflow.node("inner").settings
    assert isinstance(graph, Subgraph)
    assert [node.id for node in graph.nodes] == ["a"]
    assert {warning.rule for warning in workflow.warnings} == {Rule.NOT_SUPPORTED}


def test_a_subgraph_may_have_stores_of_its_own(read: Read) -> None:
    graph = f"{{memory: [{{name: own, type: notes}}], nodes: [{_agent('{name: own}, {name: notes}')}]}}"
    inner = read(_inline(graph)).node("inner").settings
    assert isinstance(inner, Subgraph)
    assert [store.name for store in inner.memory] == ["own"]


@pytest.mark.parametrize(("config", "path", "message"), cases("config_subgraphs", "problems_in_the_node"))
def test_problems_in_the_node(problems: Callable[..., list[Finding]], config: str, path: str, message: str) -> None:
    found = problems(_workflow(config))[0]
    assert (found.file, found.line, found.path) == ("w.yaml", 5, f"nodes[0].{path}")
    assert found.message == message


def test_problems_of_a_file_name_the_file(problems: Callable[..., list[Finding]], tmp_path: Path) -> None:
    folder = tmp_path / "subgraphs"
    folder.mkdir()
    (folder / "inner.yaml").write_text(
        f"graph:\n  nodes:\n  - {_agent('notes')}\n  - {{id: a, type: agent, config: {{memories: [nope]}}}}\n"
    )
    found = problems(_named("subgraphs/inner.yaml"))
    file = str(folder / "inner.yaml")
    assert [(one.file, one.line, one.path) for one in found] == [
        (file, 4, "graph.nodes[1].id"),
        (file, 4, "graph.nodes[1].config.memories[0]"),
    ]


def test_a_file_that_is_not_yaml_is_a_problem_of_that_file(
    problems: Callable[..., list[Finding]], tmp_path: Path
) -> None:
    (tmp_path / "inner.yaml").write_text("nodes: [\n")
    assert [(one.file, one.rule) for one in problems(_named("inner.yaml"))] == [
        (str(tmp_path / "inner.yaml"), Rule.INVALID_FILE)
    ]


def test_a_missing_file_is_an_error_that_says_where_it_was_looked_up(
    problems: Callable[..., list[Finding]], tmp_path: Path
) -> None:
    (found,) = problems(_named("inner.yaml"))
    assert found.path == "nodes[0].config.config.path"
    assert found.rule == Rule.MISSING_FILE
    assert found.message == (
        f"there is no file 'inner.yaml' in '{tmp_path}'; a relative path starts at the workflow's folder"
    )


def test_files_are_found_beside_the_subgraph_and_beside_the_workflow(read: Read, tmp_path: Path) -> None:
    folder = tmp_path / "subgraphs"
    folder.mkdir()
    (folder / "first.yaml").write_text(f"nodes: [{_node('second.yaml')}]")
    (folder / "second.yaml").write_text(f"nodes: [{_node('third.yaml')}]")
    (tmp_path / "third.yaml").write_text(f"nodes: [{_agent('notes')}]")
    files = []
    settings = read(_named("subgraphs/first.yaml")).node("inner").settings
    while isinstance(settings, Subgraph):
        files.append(settings.file)
        settings = settings.nodes[0].settings
    assert files == [folder / "first.yaml", folder / "second.yaml", tmp_path / "third.yaml"]


def test_variables_of_a_file_win_over_those_around_it(read: Read, tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        "vars: {A: inner}\nnodes: [{id: a, type: agent, config: {role: '${A} ${B} ${C}'}}]"
    )
    workflow = read("vars: {A: outer, B: outer}\n" + _named("inner.yaml"))
    graph = workflow.node("inner").settings
    assert isinstance(graph, Subgraph)
    config = graph.nodes[0].config
    assert config is not None
    assert config.role == "inner outer ${C}"
    unset = [warning for warning in workflow.warnings if warning.rule == Rule.UNSET_VARIABLE]
    assert [(one.file, one.path) for one in unset] == [(str(tmp_path / "inner.yaml"), "nodes[0].config.role")]
    assert workflow.unresolved == ()


def test_a_subgraph_that_includes_itself_is_an_error(problems: Callable[..., list[Finding]], tmp_path: Path) -> None:
    (tmp_path / "first.yaml").write_text(f"nodes: [{_node('second.yaml')}]")
    (tmp_path / "second.yaml").write_text(f"nodes: [{_node('first.yaml')}]")
    (found,) = problems(_named("first.yaml"))
    assert found.file == str(tmp_path / "second.yaml")
    assert found.message == (
        "the subgraph includes itself (first.yaml -> second.yaml -> first.yaml); name another file"
    )


def test_a_store_that_only_a_subgraph_attaches_is_used(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(_inline(f"{{nodes: [{_agent('notes')}]}}"))
    check = check_workflow(file, FakeTypes(), environ={})
    assert check.count(Level.ERROR) == 0
    assert {finding.rule for finding in check.findings} == {Rule.NOT_SUPPORTED}


CLOSER = """
memory: [{name: own, type: notes}]
nodes: [{id: a, type: agent, config: {provider: opnai}}]
"""
FOUND = [
    "unknown chat provider 'opnai'; did you mean 'openai'? Possible: extractive, openai, or any with `base_url`.",
    "no agent attaches the store 'own'",
]


def _closer_look(file: Path, store_types: FakeTypes) -> list[Finding]:
    found = check_workflow(file, store_types, environ={}).findings
    return [one for one in found if one.message in FOUND]


def test_a_closer_look_enters_an_inline_subgraph(store_types: FakeTypes, tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    graph = "{memory: [{name: own, type: notes}], nodes: [{id: a, type: agent, config: {provider: opnai}}]}"
    file.write_text(_inline(graph), encoding="utf-8")
    found = _closer_look(file, store_types)
    assert {one.message for one in found} == set(FOUND)
    assert {one.file for one in found} == {str(file)}
    assert "nodes[0].config.config.nodes[0].config.provider" in {one.path for one in found}


def test_a_closer_look_enters_files_of_subgraphs_once(store_types: FakeTypes, tmp_path: Path) -> None:
    file, inner = tmp_path / "team.yaml", tmp_path / "inner.yaml"
    inner.write_text(CLOSER, encoding="utf-8")
    twice = _named("inner.yaml") + "- {id: second, type: subgraph, config: {type: file, config: {path: inner.yaml}}}\n"
    file.write_text(twice, encoding="utf-8")
    found = _closer_look(file, store_types)
    assert sorted((one.message, one.file, one.line) for one in found) == [
        (FOUND[1], str(inner), 2),
        (FOUND[0], str(inner), 3),
    ]
