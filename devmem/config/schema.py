"""The JSON Schema of a workflow document, so that an editor completes and checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from devmem.config.agent import NODE_TYPES, ONLY_IN_CONFIG, AgentConfig
from devmem.config.base import ConfigModel, StoreTypes, models_in, one_line
from devmem.config.forms import field_specs
from devmem.config.store import EmbeddingConfig, StoreDeclaration
from devmem.config.workflow import ROOT_ONLY, NodeConfig, Variant, WorkflowDocument, variants

Schema: TypeAlias = dict[str, Any]


def misplaced(description: str) -> Schema:
    """Return the schema of a key that may not stand in a place."""
    return {"description": description, "not": {}}


def refuse_misplaced_keys(node: Schema, agent: Schema) -> None:
    """Refuse the keys of an agent beside its `config`, where `config` does not have them, and a store inside it."""
    agent["properties"]["memory"] = misplaced(
        "Stores are declared under the document's `memory` and attached in `memories`."
    )
    for key in ONLY_IN_CONFIG:
        absent = {"not": {"type": "object", "required": [key]}}
        agents_without = {
            "required": ["type", key],
            "properties": {"type": {"const": "agent"}, "config": absent},
        }
        refused = {"properties": {key: misplaced(f"`{key}` belongs inside the agent's `config`.")}}
        node["allOf"].append({"if": agents_without, "then": refused})


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLACEHOLDER: Final[Schema] = {
    "title": "Placeholder",
    "description": "A variable from `vars` or the environment.",
    "type": "string",
    "pattern": r"\$\{[A-Za-z0-9_]+(:-[^}]*)?\}",
}
_PLACEHOLDER_REF: Final[Schema] = {"$ref": "#/$defs/placeholder"}
_NULL: Final[Schema] = {"type": "null"}
_SAID_OUTSIDE: Final = ("title", "description", "default", "examples", "deprecated", "advanced")


def workflow_schema(store_types: StoreTypes) -> Schema:
    """Return the JSON Schema (2020-12) of workflow documents, ours and DevAll's, with every installed store type."""
    stores = variants(StoreDeclaration, store_types)
    agents = variants(NodeConfig, store_types)
    configs = [one.model for one in (*stores, *agents) if one.model]
    definitions = _Definitions([WorkflowDocument, EmbeddingConfig, *configs], store_types)
    _route(definitions, StoreDeclaration, stores)
    _route(definitions, NodeConfig, agents)
    definitions.make_lenient()
    # Any other type is allowed too, since DevAll's can be extended.
    options = [{"const": name, "description": summary} for name, summary in NODE_TYPES.items()]
    node = definitions.of(NodeConfig)["properties"]
    other = {key: value for key, value in node["type"].items() if key not in _SAID_OUTSIDE}
    node["type"] = {**_outside(node["type"]), "anyOf": [*options, other]}
    refuse_misplaced_keys(definitions.of(NodeConfig), definitions.of(AgentConfig))
    # The name of a store may stand in the place of an attachment.
    attachments = definitions.of(AgentConfig)["properties"]["memories"]["anyOf"]
    items = next(branch["items"] for branch in attachments if "items" in branch)
    items["anyOf"] = [one for one in items["anyOf"] if one != _PLACEHOLDER_REF] + [{"type": "string", "minLength": 1}]
    definitions.also_names(EmbeddingConfig, {"type": "string", "minLength": 1})
    root = definitions.of(WorkflowDocument)
    # A single element may stand in the place of a list of it.
    root["properties"]["memory"]["anyOf"].append(definitions.reference(StoreDeclaration))
    root["properties"]["plugins"]["anyOf"].append({"type": "string"})
    inside_graph = {key: value for key, value in root["properties"].items() if key not in ROOT_ONLY}
    inside_graph["vars"] = misplaced("`vars` belongs at the root of the document, beside `graph`.")
    graph = {"description": "Where DevAll's workflows stand.", "type": "object", "properties": inside_graph}
    return {
        "$schema": _DIALECT,
        "title": "devmem workflow",
        "description": root["description"],
        "type": "object",
        "properties": {**root["properties"], "graph": graph},
        "$defs": definitions.without(WorkflowDocument, ConfigModel),
    }


class _Definitions:
    """The schemas of models, as pydantic makes them, under the names by which they refer to one another."""

    def __init__(self, models: Sequence[type[BaseModel]], store_types: StoreTypes) -> None:
        # The models that these contain have definitions too, but only those that are asked for have known names.
        wanted: dict[type[BaseModel], None] = {}
        waiting: list[type[BaseModel]] = [*models, ConfigModel]
        while waiting:
            model = waiting.pop()
            if model not in wanted:
                wanted[model] = None
                waiting += [inner for field in model.model_fields.values() for inner in models_in(field.annotation)]
        self._references, generated = models_json_schema(
            [(model, "validation") for model in wanted], ref_template="#/$defs/{model}"
        )
        self._schemas: dict[str, Schema] = generated["$defs"]
        for model in wanted:
            _describe(model, self.of(model), store_types)

    def reference(self, model: type[BaseModel]) -> Schema:
        return dict(self._references[model, "validation"])

    def of(self, model: type[BaseModel]) -> Schema:
        return self._schemas[self._name(model)]

    def also_names(self, model: type[BaseModel], name: Schema) -> None:
        """Also allow a name wherever a model's mapping is allowed."""
        reference = self.reference(model)
        for schema in self._schemas.values():
            for shown in schema.get("properties", {}).values():
                if reference in shown.get("anyOf", ()):
                    shown["anyOf"] = [*shown["anyOf"], name]

    def make_lenient(self) -> None:
        for schema in (one for one in self._schemas.values() if "properties" in one):
            properties, required = schema["properties"], schema.get("required", ())
            schema["properties"] = {
                key: _lenient(value, nullable=key not in required) for key, value in properties.items()
            }

    def without(self, *models: type[BaseModel]) -> dict[str, Schema]:
        left_out = {self._name(model) for model in models}
        kept = {name: schema for name, schema in self._schemas.items() if name not in left_out}
        return dict(sorted({**kept, "placeholder": dict(_PLACEHOLDER)}.items()))

    def _name(self, model: type[BaseModel]) -> str:
        return str(self.reference(model)["$ref"]).removeprefix("#/$defs/")


def _describe(model: type[BaseModel], schema: Schema, store_types: StoreTypes) -> None:
    """Put what forms say of a model's fields into its schema: descriptions, choices, and other names of a key."""
    properties = schema.get("properties", {})
    for spec in field_specs(model, store_types) if issubclass(model, ConfigModel) else ():
        if (shown := properties.get(spec.name)) is None:
            continue
        if spec.description is not None:
            shown["description"] = spec.description
        if model is EmbeddingConfig and spec.name == "provider":
            shown["enum"] = list(spec.enum)
        if model is StoreDeclaration and spec.name == "type" and spec.enum:
            options = [{"const": one.value, "description": one.description} for one in spec.enum_options]
            properties["type"] = {**_outside(shown), "oneOf": options}
        for other in spec.aliases:
            properties[other] = {**properties[spec.name], "description": f"The same as `{spec.name}`."}


def _route(definitions: _Definitions, model: type[BaseModel], types: Sequence[Variant]) -> None:
    """Make a model's `config` depend on its `type`."""
    schema = definitions.of(model)
    schema["properties"]["config"] = _outside(schema["properties"]["config"])
    rules = [_when(one.value, one.model, definitions) for one in types if one.model]
    if rules:
        schema["allOf"] = rules


def _when(value: str, model: type[BaseModel], definitions: _Definitions) -> Schema:
    is_optional = not any(field.is_required() for field in model.model_fields.values())
    config = _lenient(definitions.reference(model), nullable=is_optional)
    then: Schema = {"properties": {"config": config}}
    if not is_optional:
        then["required"] = ["config"]
    return {"if": {"required": ["type"], "properties": {"type": {"const": value}}}, "then": then}


def _outside(schema: Schema) -> Schema:
    about = {key: value for key, value in schema.items() if key in _SAID_OUTSIDE}
    if "description" in about:
        about["description"] = one_line(about["description"])
    return about


def _lenient(schema: Schema, *, nullable: bool) -> Schema:
    """Also allow a placeholder, and nothing where a block may be left out, because reading does."""
    about = _outside(schema)
    inner = {key: value for key, value in schema.items() if key not in _SAID_OUTSIDE}
    if not inner or _takes_text(inner):
        return {**about, **inner}
    branches = list(inner["anyOf"]) if set(inner) == {"anyOf"} else [inner]
    for at, branch in enumerate(branches):
        if isinstance(items := branch.get("items"), dict):
            branches[at] = {**branch, "items": _lenient(items, nullable=False)}
    is_block = any("$ref" in branch or branch.get("type") in ("array", "object") for branch in branches)
    more = [_NULL] if nullable and is_block and _NULL not in branches else []
    return {**about, "anyOf": [*branches, *more, _PLACEHOLDER_REF]}


def _takes_text(schema: Schema) -> bool:
    if "anyOf" in schema:
        return any(_takes_text(branch) for branch in schema["anyOf"])
    return schema.get("type") == "string" and not schema.keys() & {"enum", "const", "pattern"}
