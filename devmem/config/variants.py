"""Which settings a `config:` block may hold, by the `type` that stands beside it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from devmem.config.agent import AgentConfig
from devmem.config.base import ConfigModel
from devmem.config.store import StoreDeclaration
from devmem.config.store_types import StoreTypes
from devmem.config.workflow import NodeConfig
from devmem.errors import StoreTypeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One type, and the model of its `config:` block."""

    value: str
    """Value of `type`."""
    summary: str
    """One line for people."""
    model: type[ConfigModel] | None
    """None when the type's package cannot be used; the summary then says why."""


def variants(model: type[BaseModel], store_types: StoreTypes | None) -> tuple[Variant, ...]:
    """Return the variants of a model whose `config` depends on its `type`; none for any other model."""
    if model is NodeConfig:
        return (Variant(value="agent", summary="A step that a language model takes.", model=AgentConfig),)
    if model is not StoreDeclaration or store_types is None:
        return ()
    return tuple(_store_variant(name, store_types) for name in store_types.names())


def _store_variant(name: str, store_types: StoreTypes) -> Variant:
    try:
        return Variant(value=name, summary=store_types.summary(name), model=store_types.config_model(name))
    except StoreTypeError as error:
        return Variant(value=name, summary=str(error), model=None)
