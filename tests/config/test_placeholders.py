"""Where the values of placeholders come from, and what happens when there are none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from devmem.config import load_workflow, parse_workflow
from devmem.errors import ConfigError
from tests.cases import cases

from .conftest import Read, Refuse
from .fakes import FakeTypes, NotesConfig


def _notes(read: Read, config: str, variables: str = "{}", **environ: str) -> NotesConfig:
    text = f"vars: {variables}\nmemory:\n- name: a\n  type: notes\n  config:\n    {config}"
    found = read(text, **environ).memory[0].config
    assert isinstance(found, NotesConfig)
    return found


@pytest.mark.parametrize(("written", "value"), cases("config_placeholders", "text"))
def test_text(read: Read, written: str, value: str | None) -> None:
    variables = (
        "{FROM_VARS: vars, CHAIN: '${FROM_VARS}/${A}', BOTH: vars wins, NUMBERS: 7, FLAG: true, NOTHING: null, "
        "FORWARDED: '${FORWARDED}'}"
    )
    environ = {"A": "one", "B": "two", "BOTH": "environment", "EMPTY": "", "FORWARDED": "from outside"}
    config = _notes(read, f"memory_path: '{written}'", variables, **environ)
    assert config.memory_path == value


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        ("max_items: ${N}", "max_items", 5),
        ("max_items: ${TYPED}", "max_items", 6),
        ("max_items: ${QUOTED}", "max_items", 7),
        ("max_items: ${UNSET:-8}", "max_items", 8),
        ("strict: ${F}", "strict", True),
        ("strict: ${NO}", "strict", False),
        ("memory_path: ${N}", "memory_path", "5"),
        ("tags: ${LIST}", "tags", ["a", "5"]),
        ("weights: ${MAP}", "weights", {"text": 0.5}),
    ],
)
def test_values_take_the_type_that_is_wanted(read: Read, config: str, key: str, value: object) -> None:
    variables = "{TYPED: 6, QUOTED: '7', LIST: [a, '${N}'], MAP: {text: 0.5}}"
    assert getattr(_notes(read, config, variables, N="5", F="true", NO="false"), key) == value


def test_keys_are_not_expanded(refuse: Refuse) -> None:
    assert "unknown key" in refuse("memory: [{name: a, type: notes, config: {'${A}': 1}}]", A="max_items")[0]


def test_environment_wins_over_the_file_beside_the_workflow_and_that_over_the_working_directory(
    tmp_path: Path, store_types: FakeTypes, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "flow", tmp_path / "cwd"
    for each, text in ((folder, "A=beside\nB=beside\n"), (elsewhere, "A=cwd\nB=cwd\nC='cwd # quoted'\nexport D=$A\n")):
        each.mkdir()
        (each / ".env").write_text(text)
    file = folder / "w.yaml"
    file.write_text("memory: [{name: '${A} ${B} ${C} ${D}', type: notes}]")
    monkeypatch.chdir(elsewhere)
    before = dict(os.environ)
    workflow = load_workflow(file, store_types, environ={"A": "process"})
    assert workflow.memory[0].name == "process beside cwd # quoted $A"
    assert dict(os.environ) == before


def test_the_process_environment_is_the_default(store_types: FakeTypes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVMEM_TEST_NAME", "from the process")
    workflow = parse_workflow("memory: [{name: '${DEVMEM_TEST_NAME}', type: notes}]", store_types)
    assert workflow.memory[0].name == "from the process"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xfe", "not UTF-8"), (b"A=1\n" * 100_000, "larger than"), (b"A\n'", None), (b"", None)],
)
def test_a_bad_env_file(tmp_path: Path, read: Read, content: bytes, message: str | None) -> None:
    (tmp_path / ".env").write_bytes(content)
    if message is None:
        assert read("memory: [{name: '${A}', type: notes}]").unresolved[0].names == ("A",)
    else:
        with pytest.raises(ConfigError, match=rf"\.env.*{message}"):
            read("memory: [{name: '${A}', type: notes}]")
    assert read("memory: [{name: '${A}', type: notes}]", A="not needed").unresolved == ()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("{A: '${A1}', A1: '${A2}', A2: 'x${A}'}", "these `vars` refer to one another in a circle: A -> A1 -> A2 -> A"),
        ("{A: [1]}", "'A' is a list and cannot be put into a text"),
        ("{A: {b: c}}", "'A' is a mapping and cannot be put into a text"),
        ("{A: '${B:-${C}}'}", "the default of 'B' holds another placeholder; give it a name under `vars`"),
    ],
)
def test_what_cannot_be_put_in(refuse: Refuse, variables: str, message: str) -> None:
    lines = refuse(f"vars: {variables}\nmemory:\n- name: a\n  type: notes\n  config:\n    memory_path: x${{A}}")
    assert lines == [f"6: memory[0].config.memory_path: {message}"]


def test_unused_variables_may_be_wrong(read: Read) -> None:
    assert _notes(read, "max_items: 1", "{A: '${B}', B: '${A}', C: '${UNSET}'}").max_items == 1


def test_what_is_not_set_stays_as_written_and_is_listed(read: Read) -> None:
    text = """\
vars: {HOST: "${DB_HOST}"}
memory:
  - name: a
    type: notes
    config:
      memory_path: postgresql://${HOST}/${DB}
      embedding: {provider: openai, api_key: "${API_KEY}"}
  - name: b
    type: notes
"""
    workflow = read(text)
    config = workflow.memory[0].config
    assert isinstance(config, NotesConfig)
    assert config.memory_path == "postgresql://${DB_HOST}/${DB}"
    assert [(one.path, one.line, one.names) for one in workflow.unresolved] == [
        ("memory[0].config.memory_path", 6, ("DB_HOST", "DB")),
        ("memory[0].config.embedding.api_key", 7, ("API_KEY",)),
    ]
    workflow.require_resolved("memory", 1)
    workflow.require_resolved(*workflow.store("b").place.location)
    workflow.require_resolved("nodes")
    with pytest.raises(ConfigError) as caught:
        workflow.require_resolved("memory", 0)
    assert [(problem.path, problem.line) for problem in caught.value.problems] == [
        ("memory[0].config.memory_path", 6),
        ("memory[0].config.embedding.api_key", 7),
    ]
    assert "variables DB_HOST, DB are not set" in str(caught.value)
    with pytest.raises(ConfigError, match="API_KEY"):
        workflow.require_resolved()


def test_require_resolved_understands_both_layouts(read: Read) -> None:
    workflow = read("graph: {memory: [{name: '${A}', type: notes}]}")
    for prefix in (("memory", 0), ("graph", "memory", 0)):
        with pytest.raises(ConfigError, match="variable A is not set"):
            workflow.require_resolved(*prefix)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            "max_items: ${N}",
            "max_items: the variable N is not set; set it under `vars`, in the environment or in a `.env`",
        ),
        ("strict: ${N}", "strict: the variable N is not set"),
        ("embedding: ${N}", "embedding: the variable N is not set"),
        ("weights: {a: '${N}'}", "weights.a: the variable N is"),
    ],
)
def test_where_a_value_is_needed_the_variable_is_named(refuse: Refuse, config: str, expected: str) -> None:
    lines = refuse(f"memory:\n- name: a\n  type: notes\n  config:\n    {config}")
    assert lines[0].startswith(f"5: memory[0].config.{expected}")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("memory: [{name: a, type: '${T}'}]", "memory[0].type"),
        ("memory: ${T}", "memory"),
        ("nodes: [{id: a, type: agent, config: {memories: [{name: '${T}'}]}}]", "nodes[0].config.memories[0].name"),
    ],
)
def test_a_type_or_a_reference_cannot_wait(refuse: Refuse, text: str, path: str) -> None:
    assert refuse(text)[0].startswith(f"1: {path}: ")


def test_parts_that_are_not_ours_may_hold_anything(read: Read) -> None:
    agent = "{id: a, type: agent, config: {tooling: '${X}', retry: '${Y}'}}"
    text = f"nodes: [{agent}, {{id: b, type: c, config: '${{Z}}'}}]\nx: ${{W}}"
    assert read(text).unresolved == ()


def test_whole_sections_can_come_from_variables(read: Read) -> None:
    text = """\
vars:
  stores: [{name: a, type: notes, config: {max_items: "${N}"}}]
  agent: {model: m, memories: [{name: a}]}
  nodes: [{id: x, type: agent, config: "${agent}"}]
memory: ${stores}
nodes: ${nodes}
edges: ${edges:-}
"""
    with pytest.raises(ConfigError, match=r"edges: expected a list"):
        read(text, N="3")
    workflow = read(text.replace("edges: ${edges:-}", ""), N="3")
    assert workflow.memory[0].config == NotesConfig(max_items=3)
    config = workflow.node("x").config
    assert config is not None
    assert config.memories[0].name == "a"


def _chain(last: str, link: str, length: int = 30) -> str:
    """Return variables `v0` to `v{length}`, each made of the one before it as `link` says."""
    links = (f"  v{index}: " + link.replace("@", f"${{v{index - 1}}}") for index in range(1, length))
    return "\n".join([f"  v0: {last}", *links, f"  use: ${{v{length - 1}}}"])


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (_chain("xxxxxxxxxx", "'" + "@" * 10 + "'"), "longer than 4,194,304 characters"),
        (_chain("[1, 1]", "[" + "'@', " * 10 + "]"), "more than 50,000 values"),
        (_chain("x", "[" * 40 + "'@'" + "]" * 40), "nests deeper than 64 levels"),
        (_chain("x", "'@'", length=5000), "through more than 64 steps"),
    ],
    ids=["text", "lists", "depth", "steps"],
)
def test_variables_that_multiply_are_refused(refuse: Refuse, variables: str, message: str) -> None:
    lines = refuse(f"vars:\n{variables}\nmemory: [{{name: a, type: notes, config: {{memory_path: '${{use}}'}}}}]")
    assert len(lines) == 1
    assert message in lines[0]


def test_a_mistake_inside_a_variable_is_reported_where_the_variable_is_used(refuse: Refuse) -> None:
    text = "vars: {C: {max_items: none, weights: {a: b}}}\nmemory:\n- name: a\n  type: notes\n  config: ${C}"
    assert refuse(text) == [
        "5: memory[0].config.max_items: expected a whole number, found the value of '${C}'",
        "5: memory[0].config.weights.a: expected a number, found the value of '${C}'",
    ]


def test_a_broken_variable_is_reported_wherever_it_is_used(refuse: Refuse) -> None:
    variables = "vars: {A: ['${A}x', '${B}'], B: '${A}'}"
    text = variables + "\nmemory: [{name: a, type: notes, config: {tags: '${A}', weights: '${A}'}}]"
    lines = refuse(text)
    assert [line.split(": ")[1] for line in lines] == ["memory[0].config.tags", "memory[0].config.weights"]


def test_expanding_leaves_shared_data_alone(read: Read) -> None:
    shared: dict[str, Any] = {}
    text = (
        "x: &x {memory_path: '${A}'}\nmemory: [{name: a, type: notes, config: *x}, {name: b, type: notes, config: *x}]"
    )
    for value in ("one", "two"):
        shared[value] = [store.config.model_dump()["memory_path"] for store in read(text, A=value).memory]
    assert shared == {"one": ["one", "one"], "two": ["two", "two"]}
