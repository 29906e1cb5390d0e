"""Options that put other models in the place of those that a workflow names, so that it runs without a key."""

from __future__ import annotations

from enum import StrEnum

from devmem.cli.failures import CommandError
from devmem.config import EmbeddingConfig, IndexConfig, StoreDeclaration, Workflow
from devmem.runtime import ChatModels, configured_chat_models

_KEY = "embedding"


class EmbeddingChoice(StrEnum):
    """Embeddings that need no key."""

    MINILM = "minilm"
    NONE = "none"


def with_embedding(workflow: Workflow, choice: EmbeddingChoice) -> Workflow:
    """Return the workflow with another embedding model for every store that has one.

    Placeholders in the `embedding:` blocks that are replaced need no value any more.
    """
    replaced = [store for store in workflow.memory if getattr(store.config, _KEY, None) is not None]
    blocks = [(*store.place.location, "config", _KEY) for store in replaced]
    unresolved = tuple(
        one for one in workflow.unresolved if not any(one.location[: len(block)] == block for block in blocks)
    )
    stores = tuple(_with(store, choice) if store in replaced else store for store in workflow.memory)
    return workflow.model_copy(update={"memory": stores, "unresolved": unresolved})


def with_fields(workflow: Workflow, store: str, fields: tuple[str, ...]) -> Workflow:
    """Return the workflow with other indexed fields of a store.

    Raises:
        CommandError: its store type has no `index:` block.
    """
    stores = tuple(_with_fields(each, fields) if each.name == store else each for each in workflow.memory)
    return workflow.model_copy(update={"memory": stores})


def _with_fields(store: StoreDeclaration, fields: tuple[str, ...]) -> StoreDeclaration:
    index = getattr(store.config, "index", None)
    if not isinstance(index, IndexConfig):
        raise CommandError(f"memory store {store.name!r} has no `index:`, so none of its fields can be searched.")
    changed = index.model_copy(update={"fields": fields})
    return store.model_copy(update={"config": store.config.model_copy(update={"index": changed})})


def _with(store: StoreDeclaration, choice: EmbeddingChoice) -> StoreDeclaration:
    block = None if choice is EmbeddingChoice.NONE else EmbeddingConfig(provider="minilm")
    return store.model_copy(update={"config": store.config.model_copy(update={_KEY: block})})


def chat_models(workflow: Workflow, provider: str | None) -> ChatModels:
    """Return the choice of each node's chat model; `provider` takes the place of the configured one."""
    configured = configured_chat_models(workflow)
    if provider is None:
        return configured
    return lambda node, config: configured(node, config.model_copy(update={"provider": provider}))
