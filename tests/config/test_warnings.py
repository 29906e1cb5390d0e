"""Warnings about workflows that run but are probably not meant that way."""

from __future__ import annotations

from pathlib import Path

import pytest

from devmem.config import StoreTypes, check_workflow, parse_workflow
from devmem.errors import ConfigError, Level
from devmem.plugins import registry
from tests.cases import cases

from .conftest import Read
from .fakes import FakeTypes

STORES = "memory:\n- {name: notes, type: notes}\n- {name: docs, type: files, config: {file_sources: [{path: .}]}}\n"


def _warnings(read: Read, text: str, **environ: str) -> list[tuple[str, str]]:
    return [(warning.path, warning.message) for warning in read(text, **environ).warnings]


def _checked(folder: Path, text: str, types: StoreTypes) -> list[tuple[str, str]]:
    (folder / "w.yaml").write_text(text, encoding="utf-8")
    found = check_workflow(folder / "w.yaml", types, environ={}).findings
    return [(each.path, each.message) for each in found if each.level is Level.WARNING]


def _attached(attachment: str, agent: str = "") -> str:
    return STORES + f"nodes: [{{id: a, type: agent, config: {{{agent} memories: [{attachment}]}}}}]"


@pytest.mark.parametrize(
    ("attachment", "agent", "key", "message"), cases("config_warnings", "attachments_without_effect")
)
def test_attachments_without_effect(tmp_path: Path, attachment: str, agent: str, key: str, message: str) -> None:
    (tmp_path / "a.md").touch()
    found = _checked(tmp_path, _attached(attachment, agent), FakeTypes())
    assert [(path, text[: len(message)]) for path, text in found] == [(f"nodes[0].config.memories[0].{key}", message)]


@pytest.mark.parametrize(
    ("store_type", "view", "warned"),
    [
        ("blackboard", "", True),
        ("conversation", "", True),
        ("conversation", "view: {order: search}", False),
        ("brain", "", False),
        ("simple", "", False),
    ],
)
def test_a_threshold_without_effect(tmp_path: Path, store_type: str, view: str, warned: bool) -> None:
    """Items that are read by time have no similarity."""
    text = (
        f"memory:\n- {{name: notes, type: {store_type}, config: {{}}}}\n"
        "nodes: [{id: a, type: agent, config: {memories: "
        f"[{{name: notes, similarity_threshold: 0.2, {view}}}]}}}}]"
    )
    found = [path for path, message in _checked(tmp_path, text, registry) if "whatever their similarity" in message]
    assert found == (["nodes[0].config.memories[0].similarity_threshold"] if warned else [])


@pytest.mark.parametrize(
    ("attachment", "agent"),
    [
        ("{name: docs}", ""),
        ("{name: docs, write: false}", ""),
        ("{name: notes, retrieve_stage: [pre, gen]}", ""),
        ("{name: notes, retrieve_stage: [plan, critique], write_stage: [critique]}", "plan: x, critique: y,"),
        ("{name: notes, read: false, retrieve_stage: critique}", ""),
        ("{name: notes, write: false, write_stage: critique}", ""),
    ],
)
def test_attachments_that_are_fine(tmp_path: Path, attachment: str, agent: str) -> None:
    assert _checked(tmp_path, _attached(attachment, agent), FakeTypes()) == []


@pytest.mark.parametrize(("text", "path", "meant"), cases("config_warnings", "keys_that_nearly_are_ours"))
def test_keys_that_nearly_are_ours(read: Read, text: str, path: str, meant: str) -> None:
    assert _warnings(read, text) == [(path, f"this key is not read; did you mean {meant!r}?")]


@pytest.mark.parametrize("block", ["conversation", "record_recalls", "transaction"])
def test_blocks_of_the_root_that_are_left_blank(read: Read, block: str) -> None:
    """Without a word, nothing would be recorded or committed as a whole, as when the keys below are not indented."""
    left_out = (block, f"`{block}:` has no value, so it is left out")
    assert _warnings(read, f"nodes: []\n{block}:\n") == [left_out]
    assert _warnings(read, f"nodes: []\n{block}: null\n") == []


def test_settings_of_an_attachment_beside_it(read: Read) -> None:
    config = "{memories: [notes], top_k: 5, ttl: 3d, temperature: 1}"
    text = f"memory: [{{name: notes, type: notes}}]\nnodes: [{{id: a, type: agent, config: {config}}}]"
    assert _warnings(read, text) == [
        (f"nodes[0].config.{key}", f"this key is not read here; `{key}` belongs inside an entry of `memories`")
        for key in ("top_k", "ttl")
    ]


def test_misspelt_keys_of_a_literal_are_named_beside_what_they_lack(own_types: StoreTypes) -> None:
    text = "nodes:\n- id: a\n  type: literal\n  config:\n    contnet: Hello\n"
    with pytest.raises(ConfigError) as refused:
        parse_workflow(text, own_types, origin="w.yaml")
    assert "w.yaml:5: nodes[0].config.contnet: this key is not read; did you mean 'content'?" in [
        str(each) for each in refused.value.findings
    ]


@pytest.mark.parametrize(
    ("condition", "path", "meant"),
    [
        ("{type: keyword, config: {any: [OK], noen: [REJECT]}}", "config.noen", "none"),
        ("{typ: keyword, config: {none: [REJECT]}}", "typ", "type"),
    ],
)
def test_misspelt_keys_of_a_condition(read: Read, condition: str, path: str, meant: str) -> None:
    """Without the key, the edge is followed after a text that was to stop it."""
    nodes = "nodes: [{id: a, type: agent}, {id: b, type: agent}]"
    found = _warnings(read, f"{nodes}\nedges: [{{from: a, to: b, condition: {condition}}}]")
    assert found == [(f"edges[0].condition.{path}", f"this key is not read; did you mean {meant!r}?")]


def test_blocks_that_are_left_blank(own_types: StoreTypes) -> None:
    text = "memory:\n- name: a\n  type: simple\n  config:\n    memory_path: a.db\n    guard:\n    retrieval:\n"
    text += "    embedding: null\n    ttl:\n"
    found = [(each.path, each.line) for each in parse_workflow(text, own_types, origin="w.yaml").warnings]
    assert found == [("memory[0].config.guard", 6)]
    with pytest.raises(ConfigError, match=r"w.yaml:10: memory\[0\].config.encryption: `encryption:` has no value"):
        parse_workflow(f"{text}    encryption:\n", own_types, origin="w.yaml")


@pytest.mark.parametrize("config", ["{memory_path: }", "{memory_path: ''}", "{memory_path: '${NO:-}'}"])
def test_a_place_that_is_empty(own_types: StoreTypes, config: str) -> None:
    for kind in ("simple", "brain"):
        text = f"memory: [{{name: a, type: {kind}, config: {config}}}]"
        found = parse_workflow(text, own_types, environ={}).warnings
        assert [each.path for each in found] == ["memory[0].config.memory_path"]
        assert "for this process only" in found[0].message
    for place in ("{memory_path: null}", "'${PLACE}'"):
        text = f"vars: {{PLACE: {{memory_path: null}}}}\nmemory: [{{name: a, type: simple, config: {place}}}]"
        assert parse_workflow(text, own_types).warnings == ()


def test_other_keys_are_none_of_our_business(read: Read) -> None:
    assert _warnings(read, "nodes: []\nname: x\n5: y\nend: []\nmodels: []\nmode: 1\ngraph: 3") == []


def test_unset_variables(read: Read) -> None:
    found = _warnings(read, "memory: [{name: a, type: notes, config: {memory_path: '${DIR}/${NAME}.db'}}]", NAME="x")
    message = (
        "the variable DIR is not set; set it under `vars`, in the environment or in a `.env` file beside the workflow"
    )
    assert found == [("memory[0].config.memory_path", message)]


def test_very_many_warnings_are_cut_short(read: Read) -> None:
    tags = ", ".join(f"'${{X{index}}}'" for index in range(500))
    workflow = read(f"memory: [{{name: a, type: notes, config: {{tags: [{tags}]}}}}]")
    assert (len(workflow.warnings), len(workflow.unresolved)) == (200, 500)


def test_warnings_have_lines_and_come_in_their_order(read: Read) -> None:
    workflow = read("memory:\n- {name: '${A}', type: notes}\nnode: []\nplugin: []")
    assert [(warning.file, warning.line) for warning in workflow.warnings] == [
        ("w.yaml", 2),
        ("w.yaml", 3),
        ("w.yaml", 4),
    ]
