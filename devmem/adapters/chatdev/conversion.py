"""ChatDev's settings, payloads and items as devmem's, and back; needs nothing of ChatDev."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from devmem import MemoryItem, MemoryWritePayload, Scope
from devmem.config import Attachment, StoreDeclaration, parse_workflow
from devmem.plugins import registry
from devmem.stores import TRUST, SourceKind, dump_item
from devmem.workflow import load_write

Settings = Mapping[str, Any]
"""A store's `config:` block as it stands in YAML."""

REPLACED: Final[Mapping[str, Sequence[str]]] = {
    "simple": ("memory_path", "embedding"),
    "file": ("index_path", "file_sources", "embedding"),
    "blackboard": ("memory_path", "max_items"),
    "mem0": ("api_key", "org_id", "project_id", "user_id", "agent_id"),
}
"""ChatDev's own store types, with the keys of their settings."""
_MAX_TOP_K: Final = 10_000
ATTACHMENT_KEYS: Final = "devmem_keys"
"""Attribute of ChatDev's attachments that holds the keys of devmem."""


def declared(name: str, store_type: str, settings: Settings, base_dir: Path) -> StoreDeclaration:
    """Return the declaration of a store, checked as a workflow file's are.

    Raises:
        ConfigError: the settings do not fit the store type; carries every problem with its path.
    """
    text = json.dumps({"memory": [{"name": name, "type": store_type, "config": dict(settings)}]})
    return parse_workflow(text, registry, base_dir=base_dir).memory[0]


def settings_of(store_type: str, config: Any) -> Settings:
    """Return the settings that one of ChatDev's configuration objects holds.

    Raises:
        ValueError: there is none; or ChatDev has no such type of its own, and devmem's class did not read the object.
    """
    if config is None:
        raise ValueError(f"{store_type.capitalize()} memory store configuration expected, found none")
    if isinstance(given := getattr(config, "settings", None), Mapping):
        # ChatDev sets the path of an `auto` file on the object.
        path = getattr(config, "memory_path", None)
        return {**given, "memory_path": path} if path is not None else given
    if store_type not in REPLACED:
        raise ValueError(f"a memory store of type {store_type!r} needs its settings as ChatDev read them from YAML")
    return _read(config, REPLACED[store_type])


def _read(config: Any, names: Sequence[str]) -> dict[str, Any]:
    given = {name: value for name in names if (value := getattr(config, name)) is not None}
    if embedding := given.get("embedding"):
        given["embedding"] = _read(embedding, ("provider", "model", "api_key", "base_url", "params"))
    if "file_sources" in given:
        sources = [_read(one, ("source_path", "file_types", "recursive", "encoding")) for one in given["file_sources"]]
        given["file_sources"] = [{"path": source.pop("source_path"), **source} for source in sources]
    return given


def attachment_of(config: Any) -> Attachment:
    """Return what a node does with a store."""
    return Attachment.model_validate(
        {
            # As in ChatDev, the nearest items are shown whatever was said.
            "relevance": False,
            **getattr(config, ATTACHMENT_KEYS, {}),
            "name": config.name,
            "retrieve_stage": tuple(stage.value for stage in config.retrieve_stage or ()) or None,
            **limits(config.top_k, config.similarity_threshold),
            "read": config.read,
            "write": config.write,
        }
    )


def limits(top_k: int, similarity_threshold: float) -> dict[str, Any]:
    """Return the limits of a search within devmem's bounds; ChatDev sets none."""
    return {"top_k": min(top_k, _MAX_TOP_K), "similarity_threshold": min(max(similarity_threshold, -1.0), 1.0)}


def payload_of(payload: Any, *, node: str, user: str | None) -> MemoryWritePayload:
    """Return what a finished node of ChatDev writes.

    Args:
        payload: ChatDev's `MemoryWritePayload`.
        node: id of the node; empty where it is not known.
        user: whom it belongs to.
    """
    snapshots = {"input_snapshot": payload.input_snapshot, "output_snapshot": payload.output_snapshot}
    raw = {key: snapshot.to_dict() for key, snapshot in snapshots.items() if snapshot is not None}
    roles = {block.get("role") for block in raw.get("input_snapshot", {}).get("blocks", [])}
    kind = SourceKind.TOOL if "tool" in roles else SourceKind.NODE
    return load_write(
        {
            **raw,
            "agent_role": payload.agent_role or "",
            "inputs_text": payload.inputs_text or "",
            "scope": Scope(user=user),
            "source": node,
            "trust": TRUST[kind],
        }
    )


def chatdev_form(item: MemoryItem) -> dict[str, Any]:
    """Return the JSON form from which ChatDev makes its item; what it has no field for is left out by it."""
    return dump_item(item)
