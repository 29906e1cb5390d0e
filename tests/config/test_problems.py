"""Messages about workflows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from devmem.config import Rule
from devmem.errors import ConfigError, Finding, Level
from tests.cases import cases

from .conftest import Read, Refuse
from .fakes import DEVALL

EVERYTHING_WRONG = (Path(__file__).parents[1] / "data/workflows/everything_wrong.yaml").read_text(encoding="utf-8")


def test_every_problem_is_reported_at_once(problems: Callable[[str], list[Finding]]) -> None:
    assert [(problem.line, problem.path) for problem in problems(EVERYTHING_WRONG)] == [
        (3, "memory[0].type"),
        (8, "memory[1].config.file_sources[0].path"),
        (8, "memory[1].config.file_sources[0].recursive"),
        (8, "memory[1].config.file_sources[0].pth"),
        (9, "memory[1].config.embedding.provider"),
        (10, "memory[2].name"),
        (12, "memory[2].confg"),
        (13, "memory[2].config.max_items"),
        (18, "nodes[0].config.memory"),
        (20, "nodes[0].config.memories[0].name"),
        (20, "nodes[0].config.memories[0].retrieve_stage[1]"),
        (21, "nodes[0].config.memories[1].simlarity_threshold"),
        (22, "nodes[0].config.memories[2].name"),
        (22, "nodes[0].config.memories[2].top_k"),
        (23, "nodes[1].id"),
        (26, "edges[0].to"),
    ]


def test_problems_name_the_file_as_the_caller_did(problems: Callable[[str], list[Finding]]) -> None:
    assert {problem.file for problem in problems(EVERYTHING_WRONG)} == {"w.yaml"}
    assert str(problems("memory: [{name: a}]")[0]) == "w.yaml:1: memory[0].type: this key is required"


def test_problems_of_a_devall_document_have_its_paths(problems: Callable[[str], list[Finding]]) -> None:
    broken = DEVALL.replace("top_k: 1", "top_k: none").replace("type: notes", "type: notess")
    assert [problem.path for problem in problems(broken)] == [
        "graph.memory[0].type",
        "graph.nodes[1].config.memories[0].top_k",
    ]


@pytest.mark.parametrize(("text", "line"), cases("config_problems", "stores"))
def test_stores(refuse: Refuse, text: str, line: str) -> None:
    assert refuse(text)[0].startswith(line)


@pytest.mark.parametrize(("config", "line"), cases("config_problems", "settings"))
def test_settings(refuse: Refuse, config: str, line: str) -> None:
    lines = refuse(f"memory:\n- name: a\n  type: notes\n  config:\n    {config}")
    assert lines[0].startswith(f"5: memory[0].config.{line}")


@pytest.mark.parametrize(
    ("sources", "lines"),
    [
        ("[]", ["5: memory[0].config.file_sources: expected at least 1 element, found a list"]),
        ("[{}]", ["5: memory[0].config.file_sources[0].path: this key is required"]),
        ("[a]", ["5: memory[0].config.file_sources[0]: expected a mapping, found the text 'a'"]),
        ("{path: a}", ["5: memory[0].config.file_sources: expected a list, found a mapping"]),
    ],
)
def test_lists_of_settings(refuse: Refuse, sources: str, lines: list[str]) -> None:
    assert refuse(f"memory:\n- name: a\n  type: files\n  config:\n    file_sources: {sources}") == lines


def test_required_settings_are_asked_for_where_the_store_stands(refuse: Refuse) -> None:
    assert refuse("memory:\n- name: a\n  type: files") == ["2: memory[0].config.file_sources: this key is required"]


@pytest.mark.parametrize(("attachment", "line"), cases("config_problems", "attachments"))
def test_attachments(refuse: Refuse, attachment: str, line: str) -> None:
    node = f"- id: n\n  type: agent\n  config:\n    memories: [{attachment}]"
    document = f"memory: [{{name: store, type: notes}}]\nnodes:\n{node}"
    separator = ":" if line.startswith(" ") else "."
    assert refuse(document)[0].startswith(f"6: nodes[0].config.memories[0]{separator}{line}")


@pytest.mark.parametrize(("text", "line"), cases("config_problems", "the_rest_of_the_document"))
def test_the_rest_of_the_document(refuse: Refuse, text: str, line: str) -> None:
    lines = refuse(text)
    assert lines[0].startswith(line) or lines[0].startswith(f"w.yaml: {line}")


def test_the_same_store_twice_names_the_first_attachment(refuse: Refuse) -> None:
    attached = "config:\n    memories:\n    - {name: s}\n    - {name: s}"
    text = f"memory: [{{name: s, type: notes}}]\nnodes:\n- id: a\n  type: agent\n  {attached}"
    assert refuse(text) == [
        "8: nodes[0].config.memories[1].name: the store 's' is attached to this node already, on line 7"
    ]


def test_a_store_that_is_declared_wrongly_still_counts_as_declared(refuse: Refuse) -> None:
    text = "memory: [{name: s, type: nope}]\nnodes: [{id: a, type: agent, config: {memories: [{name: s}]}}]"
    assert [line.split(":")[1] for line in refuse(text)] == [" memory[0].type"]


def test_lines_follow_aliases_and_merged_keys_to_where_the_value_was_written(refuse: Refuse) -> None:
    text = """\
defaults: &defaults
  max_items: none
memory:
  - name: a
    type: notes
    config:
      <<: *defaults
      strict: none
"""
    assert [line.split(": expected")[0] for line in refuse(text)] == [
        "2: memory[0].config.max_items",
        "8: memory[0].config.strict",
    ]


def test_very_many_problems_are_cut_short(refuse: Refuse) -> None:
    lines = refuse("memory:\n" + "- {name: a, type: zzz}\n" * 1000)
    assert len(lines) == 201
    assert "only the first 200 errors" in lines[-1]


def test_what_a_store_type_does_not_foresee_is_a_problem_of_its_settings(refuse: Refuse) -> None:
    lines = refuse("memory:\n- name: a\n  type: cloud\n  config: {api_key: 12345678abc, params: {explode: yes please}}")
    assert lines == ["4: memory[0].config: CloudConfig could not check this: RuntimeError: a bug that prints ***"]


def test_warnings_and_suggestions_stand_beside_errors(read: Read) -> None:
    text = "memroy: [{name: notes, type: notes}]\nnodes: [{id: a, type: agent, config: {memories: [{name: notes}]}}]"
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert [(one.level, one.rule, one.line) for one in caught.value.findings] == [
        (Level.WARNING, Rule.UNKNOWN_KEY, 1),
        (Level.ERROR, Rule.UNKNOWN_NAME, 2),
    ]
    assert [one.level for one in caught.value.problems] == [Level.ERROR]
    assert str(caught.value).startswith(
        "warning: w.yaml:1: memroy: this key is not read; did you mean 'memory'?\nw.yaml"
    )
