"""The JSON Schema says yes to what can be read, and no to what people get wrong."""

from __future__ import annotations

import pytest
import yaml

from devmem.config import ConfigModel, StoreTypes, workflow_schema

from .conftest import Read
from .fakes import DEVALL, OWN, FakeTypes, TreeConfig

jsonschema = pytest.importorskip("jsonschema")


def _errors(text: str, store_types: StoreTypes) -> list[str]:
    validator = jsonschema.Draft202012Validator(workflow_schema(store_types))
    return [error.json_path for error in validator.iter_errors(yaml.safe_load(text))]


def _store(config: str, type_: str = "notes") -> str:
    return f"memory: [{{name: a, type: {type_}, config: {config}}}]"


def test_it_is_a_schema(store_types: FakeTypes) -> None:
    jsonschema.Draft202012Validator.check_schema(workflow_schema(store_types))


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        DEVALL,
        "memory:\nnodes: []",
        "memory: {name: a, type: notes}",
        "memory: ${STORES}\nnodes: ['${NODE}']\nplugins: a.b",
        _store("{max_items: '${N}', embedding: '${E}', strict: '${S:-false}', weights: , tags: x}"),
        _store("{embedding: {provider: '${P}', params: {chunk_strategy: '${C}'}}}"),
        _store("null"),
        "memory: [{name: a, type: '${T}', config: {x: y}}]",
        "nodes: [{id: a, type: agent, config: {prompt_template: x, name: y, anything: z, memories: }}]",
        "nodes: [{id: a, type: agent, config: {memories: [{name: x, retrieve_stage: pre_gen_thinking}]}}]",
        "nodes: [{id: a, type: agent, config: {memories: [{name: x, retrieve_stage: ['${S}'], top_k: '${K}'}]}}]",
        "nodes: [{id: a, type: other, config: {memories: 5}}]",
        "nodes: [{id: a, type: other, memories: 5}]",
        "nodes: [{id: a, type: human}, {id: b, type: '${T}'}]",
        "nodes: [{id: a, type: agent, memories: [x], config: {memories: [x, '${S}']}}]",
    ],
)
def test_what_can_be_read(store_types: FakeTypes, text: str) -> None:
    assert _errors(text, store_types) == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (_store("{}", "note"), "$.memory"),
        (_store("{max_item: 1}"), "$.memory"),
        (_store("{max_items: none}"), "$.memory"),
        (_store("{max_items: true}"), "$.memory"),
        (_store("{embedding: {provider: opnai}}"), "$.memory"),
        (_store("{}", "files"), "$.memory"),
        ("memory: [{name: a, type: files}]", "$.memory"),
        ("memory: [{name: a, type: cloud, config: {api_key: 5}}]", "$.memory"),
        ("memory: [{type: notes}]", "$.memory"),
        ("memory: [null]", "$.memory"),
        ("graph: {memory: [{name: a, type: notes, confg: {}}]}", "$.graph.memory"),
        ("memory_options: {token_budget: many}", "$.memory_options"),
        ("nodes: [{id: a}]", "$.nodes"),
        ("nodes: [{id: a, type: agent, config: {memories: [{name: a, topk: 1}]}}]", "$.nodes"),
        ("nodes: [{id: a, type: ''}]", "$.nodes"),
        ("nodes: [{id: a, type: agent, memories: [{name: a}]}]", "$.nodes"),
        ("nodes: [{id: a, type: agent, memories: [{name: a}], config: }]", "$.nodes"),
        ("nodes: [{id: a, type: agent, plan: Think., config: {role: Writer}}]", "$.nodes"),
        ("nodes: [{id: a, type: agent, memory_options: {}, config: {}}]", "$.nodes"),
        ("nodes: [{id: a, type: agent, config: {memory: [{name: a}]}}]", "$.nodes"),
        ("graph: {nodes: [], vars: {A: b}}", "$.graph.vars"),
        ("edges: [{from: a}]", "$.edges"),
    ],
)
def test_what_cannot_be_read(store_types: FakeTypes, read: Read, text: str, path: str) -> None:
    assert _errors(text, store_types) == [path]
    with pytest.raises(ValueError, match=r"w\.yaml"):
        read(text)


def test_every_key_is_explained(store_types: FakeTypes) -> None:
    schema = workflow_schema(store_types)
    for name, definition in schema["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key}"
            assert "\n" not in value["description"]


def test_types_are_listed_with_their_summaries(store_types: FakeTypes) -> None:
    type_ = workflow_schema(store_types)["$defs"]["StoreDeclaration"]["properties"]["type"]["anyOf"][0]
    options = {option["const"]: option["description"] for option in type_["oneOf"]}
    assert options["notes"] == "Keeps notes."
    assert "needs libacme" in options["broken"]


def test_node_types_are_suggested(store_types: FakeTypes) -> None:
    *known, other = workflow_schema(store_types)["$defs"]["NodeConfig"]["properties"]["type"]["anyOf"]
    assert {"agent", "human", "literal", "passthrough", "python", "subgraph"} <= {one["const"] for one in known}
    assert all(one["description"] for one in known)
    assert other == {"minLength": 1, "type": "string"}


def test_models_of_the_same_name_are_kept_apart() -> None:
    class NotesConfig(ConfigModel):
        """Another package's."""

        other: int = 1
        """A number."""

    store_types = FakeTypes(others=NotesConfig)
    assert _errors(_store("{other: 2}", "others"), store_types) == []
    assert _errors(_store("{other: 2}"), store_types) == ["$.memory"]


def test_models_may_contain_themselves() -> None:
    store_types = FakeTypes(tree=TreeConfig)
    assert _errors(_store("{children: [{children: []}]}", "tree"), store_types) == []
    assert _errors(_store("{children: [{child: []}]}", "tree"), store_types) == ["$.memory"]
