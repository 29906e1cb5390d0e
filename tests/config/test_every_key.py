"""Every key of every block is checked: a misspelt one is told apart, and a value of a wrong type names its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import pytest
import yaml

from devmem.config import StoreTypes, parse_workflow, workflow_schema
from devmem.errors import ConfigError, Finding, Level

jsonschema = pytest.importorskip("jsonschema")

Block: TypeAlias = tuple[str, Callable[[Any], dict[str, Any]]]
"""Name of a model in the schema, and the document in which such a block is."""

_REQUIRED: Final = {
    "provider": "minilm",
    "model": "m",
    "path": "docs",
    "file_sources": [{"path": "docs"}],
    "key": "k",
    "pattern": "x",
    "url": "redis://localhost",
    "store": "records",
    "into": "copies",
    "name": "notes",
    "stores": ["notes"],
    "llm": {"model": "m"},
}
"""Values of the keys that a block cannot do without."""
_BESIDE: Final[Mapping[str, Mapping[str, Any]]] = {"Mem0Config": {"api_key": "k"}}
_WRONG: Final = [[{"neither": "this"}]]
_ANYTHING: Final = {"params", "oss", "version"}
"""Keys whose values are handed on, or are for people."""
_BATCH_SIZE: Final = 8
"""Number of keys in one document: very many problems of a block are cut short."""


def _blocks(definitions: Mapping[str, Any]) -> Iterator[Block]:
    """Yield every model of the schema once, at a place where it may stand."""
    seen: set[str] = set()
    for kind in ("simple", "blackboard", "brain", "conversation", "file", "mem0", "long_term", "role_zero", "sharded"):
        model = "".join(part.capitalize() for part in kind.split("_")) + "Config"
        yield from _within(definitions, model, _store_of(kind), seen)
    notes = {"memory": [{"name": "notes", "type": "simple"}]}
    yield from _within(definitions, "MemoryOptions", lambda block: {**notes, "memory_options": block}, seen)
    yield from _within(definitions, "AgentConfig", lambda block: {**notes, "nodes": [_agent(block)]}, seen)
    records = {"memory": [{"name": name, "type": "conversation"} for name in ("records", "copies")]}
    yield from _within(definitions, "ConversationRecording", lambda block: {**records, "conversation": block}, seen)
    yield from _within(definitions, "RecallRecording", lambda block: {**notes, "record_recalls": block}, seen)


def _store_of(kind: str) -> Callable[[Any], dict[str, Any]]:
    return lambda block: {"memory": [{"name": "notes", "type": kind, "config": block}]}


def _agent(block: object) -> dict[str, Any]:
    return {"id": "n", "type": "agent", "config": block}


def _within(
    definitions: Mapping[str, Any], model: str, document: Callable[[Any], dict[str, Any]], seen: set[str]
) -> Iterator[Block]:
    if model in seen:
        return
    seen.add(model)
    yield model, document
    beside = _minimal(definitions, model)
    for key, schema in definitions[model]["properties"].items():
        for inner, is_listed in _inner(definitions, schema):

            def deeper(block: Any, key: str = key, is_listed: bool = is_listed) -> dict[str, Any]:
                return document({**beside, key: [block] if is_listed else block})

            yield from _within(definitions, inner, deeper, seen)


def _inner(definitions: Mapping[str, Any], schema: Mapping[str, Any], *, is_listed: bool = False) -> Iterator[Any]:
    """Yield the models of a key's blocks, and whether they stand in a list."""
    named = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if definitions.get(named, {}).get("type") == "object" and "properties" in definitions[named]:
        yield named, is_listed
    for branch in schema.get("anyOf", ()):
        yield from _inner(definitions, branch, is_listed=is_listed)
    if isinstance(schema.get("items"), dict):
        yield from _inner(definitions, schema["items"], is_listed=True)


def _minimal(definitions: Mapping[str, Any], model: str) -> dict[str, Any]:
    required = {key: _REQUIRED[key] for key in definitions[model].get("required", ())}
    return {**required, **_BESIDE.get(model, {})}


def _findings(document: object, types: StoreTypes) -> list[Finding]:
    try:
        return list(parse_workflow(yaml.safe_dump(document, sort_keys=False), types, origin="w.yaml").warnings)
    except ConfigError as error:
        return list(error.problems)


@pytest.fixture
def definitions(own_types: StoreTypes) -> Mapping[str, Any]:
    found: Mapping[str, Any] = workflow_schema(own_types)["$defs"]
    return found


def _keys(definitions: Mapping[str, Any], model: str) -> Iterator[list[str]]:
    keys = [key for key, schema in definitions[model]["properties"].items() if "not" not in schema]
    yield from (keys[start : start + _BATCH_SIZE] for start in range(0, len(keys), _BATCH_SIZE))


def test_a_misspelt_key_is_told_apart(definitions: Mapping[str, Any], own_types: StoreTypes) -> None:
    """The finding names its line and the key that was meant."""
    silent = []
    for model, document in _blocks(definitions):
        beside = _minimal(definitions, model)
        for keys in _keys(definitions, model):
            wrong = {f"{key}q": 1 for key in keys if key not in beside}
            told = [each for each in _findings(document({**beside, **wrong}), own_types) if each.line]
            for key in wrong:
                found = [str(each) for each in told if str(each.path).endswith(f".{key}")]
                if not any(key.removesuffix("q") in message.partition(f".{key}")[2] for message in found):
                    silent.append(f"{model}.{key}")
    assert silent == []


def test_a_value_of_a_wrong_type_is_an_error(definitions: Mapping[str, Any], own_types: StoreTypes) -> None:
    """At its line and path."""
    silent = []
    for model, document in _blocks(definitions):
        beside = _minimal(definitions, model)
        for keys in _keys(definitions, model):
            wrong = {key: _WRONG for key in keys if key not in _ANYTHING}
            told = [each for each in _findings(document({**beside, **wrong}), own_types) if each.line]
            for key in wrong:
                if not any(f".{key}" in str(each.path) for each in told):
                    silent.append(f"{model}.{key}")
    assert silent == []


def test_every_model_is_looked_at(definitions: Mapping[str, Any]) -> None:
    """But for the parts of a graph, whose other keys are those of other systems."""
    seen = {model for model, _ in _blocks(definitions)}
    models = {name for name, schema in definitions.items() if schema.get("type") == "object" and "properties" in schema}
    assert models - seen == {"ConditionConfig", "Edge", "EdgeCondition", "NodeConfig", "StoreDeclaration"}


def test_one_value_stands_for_a_list_of_it(own_types: StoreTypes) -> None:
    """For the reader and for an editor that has the schema."""
    validator = jsonschema.Draft202012Validator(workflow_schema(own_types))
    source = {"path": "docs", "file_types": ".md", "exclude": "drafts"}
    for sources in (source, [source], [{**source, "file_types": [".md"], "exclude": None}]):
        document = {"memory": [{"name": "notes", "type": "file", "config": {"file_sources": sources}}]}
        assert [error.message for error in validator.iter_errors(document)] == []
        assert not [each for each in _findings(document, own_types) if each.level is Level.ERROR]
