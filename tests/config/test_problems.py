"""Messages about workflows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devmem.config import Rule
from devmem.errors import ConfigError, Finding, Level

from .conftest import Read, Refuse
from .fakes import DEVALL

EVERYTHING_WRONG = """\
memory:
  - name: convo
    type: note
  - name: docs
    type: files
    config:
      file_sources:
        - {pth: docs/, recursive: 1}
      embedding: {provider: opnai}
  - name: convo
    type: notes
    confg: {}
    config: {max_items: true}
nodes:
  - id: a
    type: agent
    config:
      memory: {type: notes}
      memories:
        - {name: convoy, retrieve_stage: [gen, genn]}
        - {name: docs, simlarity_threshold: 0.5}
        - {name: docs, top_k: 0}
  - id: a
    type: human
edges:
  - {from: a, to: b}
"""


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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "memory:\n- name: a\n  type: nots",
            "3: memory[0].type: unknown store type 'nots'; did you mean 'notes'? Possible",
        ),
        (
            "memory:\n- name: a\n  type: broken",
            "3: memory[0].type: store type 'broken' of acme 1.0 cannot be loaded: its",
        ),
        ("memory:\n- type: notes", "2: memory[0].name: this key is required"),
        ("memory:\n- name: a", "2: memory[0].type: this key is required"),
        ("memory:\n- name: a\n  type: ''", "3: memory[0].type: expected text that is not empty, found empty text"),
        ("memory:\n- name: ' a'\n  type: notes", "2: memory[0].name: expected text on one line, without blanks around"),
        (
            "memory:\n- name: 5\n  type: notes",
            "2: memory[0].name: expected text, found the number 5; put it in quotes if",
        ),
        (
            "memory:\n- notes",
            "2: memory[0]: expected a mapping, found the text 'notes'",
        ),
        ("memory: notes", "1: memory: expected a list, found the text 'notes'"),
        (
            "memory:\n- {name: a, type: notes}\n- {name: a, type: notes}",
            "3: memory[1].name: the store name 'a' is taken al",
        ),
        (
            "memory:\n- {name: a, type: notes, 5: x}",
            "2: memory[0][5]: a key must be text, found the number; put it in quot",
        ),
    ],
)
def test_stores(refuse: Refuse, text: str, line: str) -> None:
    assert refuse(text)[0].startswith(line)


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ("max_items: true", "max_items: expected a number, found true"),
        ("max_items: many", "max_items: expected a whole number, found the text 'many'"),
        ("max_items: 0", "max_items: expected a number greater than 0, found the number 0"),
        ("max_items:", "max_items: expected a whole number, found nothing"),
        ("weights: {text: .nan}", "weights.text: expected a finite number, found the number nan"),
        ("weights: {5: 1.0}", "weights[5]: a key must be text, found the number; put it in quotes"),
        ("weights: {a b: x}", "weights[\"a b\"]: expected a number, found the text 'x'"),
        ("strict: 1", "strict: expected true or false, found the number 1"),
        ("embedding: 3", "embedding: expected a mapping, found the number 3"),
        (
            "embedding: opnai",
            "embedding: unknown embedding provider 'opnai'; did you mean 'openai'? Possible: local, minilm",
        ),
        ("tags: {a: b}", "tags: expected text or a list, found a mapping"),
        (
            "memory_pth: a",
            "memory_pth: unknown key; did you mean 'memory_path'? Possible keys: memory_path, embedding, max",
        ),
        ("embedding: {params: {max_length: 1}}", "embedding.params.max_length: expected a number at least 16, found"),
    ],
)
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


@pytest.mark.parametrize(
    ("attachment", "line"),
    [
        ("{name: t}", "name: there is no store 't'. Declared stores: store."),
        ("{name: stor}", "name: there is no store 'stor'; did you mean 'store'? Declared stores: store."),
        ("{}", "name: this key is required"),
        ("7", " expected a mapping, found the number 7"),
        ("{name: store, top_k: true}", "top_k: expected a number, found true"),
        ("{name: store, top_k: 3.5}", "top_k: expected a whole number, found the number 3.5"),
        ("{name: store, top_k: 99999}", "top_k: expected a number at most 10000, found the number 99999"),
        ("{name: store, similarity_threshold: true}", "similarity_threshold: expected a number, found true"),
        (
            "{name: store, similarity_threshold: 2}",
            "similarity_threshold: expected a number at most 1, found the num",
        ),
        ("{name: store, read: 1}", "read: expected true or false, found the number 1"),
        ("{name: store, write: sometimes}", "write: expected true or false, found the text 'sometimes'"),
        ("{name: store, retrieve_stage: never}", "retrieve_stage: expected one of pre, plan, gen, critique, finished,"),
        ("{name: store, retrieve_stage: {a: b}}", "retrieve_stage: expected a list, found a mapping"),
        ("{name: store, retrieve_stage: [gen, 3]}", "retrieve_stage[1]: expected one of pre, plan, gen, critique, fin"),
        (
            "{name: store, topk: 3}",
            "topk: unknown key; did you mean 'top_k'? Possible keys: name, retrieve_stage, writ",
        ),
    ],
)
def test_attachments(refuse: Refuse, attachment: str, line: str) -> None:
    node = f"- id: n\n  type: agent\n  config:\n    memories: [{attachment}]"
    document = f"memory: [{{name: store, type: notes}}]\nnodes:\n{node}"
    separator = ":" if line.startswith(" ") else "."
    assert refuse(document)[0].startswith(f"6: nodes[0].config.memories[0]{separator}{line}")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("nodes: {a: b}", "1: nodes: expected a list, found a mapping"),
        ("nodes: [a]", "1: nodes[0]: expected a mapping, found the text 'a'"),
        ("nodes: [{type: human}]", "1: nodes[0].id: this key is required"),
        ("nodes: [{id: a}]", "1: nodes[0].type: this key is required"),
        (
            "nodes: [{id: 1, type: human}]",
            "1: nodes[0].id: expected text, found the number 1; put it in quotes if it is",
        ),
        ("nodes: [{id: a, type: agent, config: x}]", "1: nodes[0].config: expected a mapping, found the text 'x'"),
        ("nodes: [{id: a, type: agent, config: {memories: x}}]", "1: nodes[0].config.memories: expected a list, found"),
        (
            "nodes: [{id: a, type: agent, config: {memory: x}}]",
            "1: nodes[0].config.memory: an agent has no `memory` of its own",
        ),
        (
            "nodes: [{id: a, type: agent, config: {name: 4}}]",
            "1: nodes[0].config.name: expected text, found the number 4",
        ),
        (
            "nodes:\n- {id: a, type: x}\n- {id: a, type: x}",
            "3: nodes[1].id: the node id 'a' is taken already, on line 2;",
        ),
        ("nodes: []\nedges: [{from: a}]", "2: edges[0].from: there is no node 'a'. Nodes: none."),
        (
            "nodes: [{id: node, type: x}]\nedges: [{from: node, to: nod}]",
            "2: edges[0].to: there is no node 'nod'; did you",
        ),
        ("nodes: [{id: node, type: x}]\nedges: [{from: node}]", "2: edges[0].to: this key is required"),
        ("nodes: []\nedges: [x]", "2: edges[0]: expected a mapping, found the text 'x'"),
        (
            "nodes: []\nplugins: [5]",
            "2: plugins[0]: expected the name of a Python module, or a file, found the number",
        ),
        ("nodes: []\nplugins: [nope]", "2: plugins[0]: no module nope"),
        ("nodes: []\nvars: [1]", "2: vars: expected a mapping, found a list"),
        ("nodes: []\nvars: {1: 2}", "2: vars[1]: the name of a variable must be text, found the number 1"),
        (
            "nodes: []\nmemory_options: {token_budget: true}",
            "2: memory_options.token_budget: expected a number, found true",
        ),
        (
            "nodes: []\nmemory_options: {dedup: true}",
            "2: memory_options.dedup: unknown key; did you mean 'dedupe'? Possib",
        ),
        ("graph: 3", "1: graph: expected a mapping, found the number 3"),
        ("graph: {vars: {a: b}}", "1: graph.vars: `vars` belongs at the root of the document, beside `graph`"),
        (
            "memory: []\ngraph: {memory: []}",
            "2: graph.memory: `memory` stands here and at the root, on line 1; keep one",
        ),
        ("version: 3", "there is neither `memory` nor `nodes`; this is not a workflow"),
    ],
)
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
