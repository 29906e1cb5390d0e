"""JSON Schema of keys that stand where nothing reads them."""

from __future__ import annotations

from typing import Any, TypeAlias

from devmem.config.agent import ONLY_IN_CONFIG

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
