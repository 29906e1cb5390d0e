"""Putting devmem's stores and manager in the place of ChatDev's, and back."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack
from typing import Any, Final

import runtime.node.agent.memory as memory_package
import schema_registry.registry as schemas
import workflow.graph as graph
from entity.configs.base import BaseConfig
from entity.configs.node.memory import MemoryAttachmentConfig
from runtime.node.agent.memory import memory_base
from runtime.node.agent.memory.registry import memory_store_registry, register_memory_store
from workflow.graph import GraphExecutor

from devmem.adapters.chatdev.attachments import reading_keys, with_keys
from devmem.adapters.chatdev.forms import config_class
from devmem.adapters.chatdev.manager import DevmemMemoryManager
from devmem.adapters.chatdev.settings import REPLACED
from devmem.adapters.chatdev.stores import DevmemMemory, Installation, run_in
from devmem.errors import StoreTypeError
from devmem.registry import registry

_LOG: Final = logging.getLogger(__name__)
_installed = ExitStack()


def apply(installation: Installation) -> None:
    """Replace ChatDev's store types, its manager, the reading of attachments, and the steps that make both in a run."""
    revert()
    for name in registry.names():
        _register(name, installation)
    for module in (memory_base, memory_package, graph):
        _replace(module, "MemoryManager", DevmemMemoryManager)
    _replace(MemoryAttachmentConfig, "from_dict", reading_keys(MemoryAttachmentConfig.from_dict))
    _replace(MemoryAttachmentConfig, "FIELD_SPECS", with_keys(MemoryAttachmentConfig.FIELD_SPECS))
    _replace(GraphExecutor, "_build_global_memories", _in_run_folder(GraphExecutor._build_global_memories))  # noqa: SLF001
    _replace(GraphExecutor, "_build_agent_memories", _naming_nodes(GraphExecutor._build_agent_memories))  # noqa: SLF001


def revert() -> None:
    """Undo what `apply` did, in reverse order."""
    _installed.close()


def _register(name: str, installation: Installation) -> None:
    """Register one of devmem's store types, in the place of ChatDev's own of that name."""
    # ChatDev has no way to replace a registration.
    entries, specs = memory_store_registry._entries, schemas._memory_store_schemas  # noqa: SLF001
    if name in entries and name not in REPLACED:
        _LOG.warning("ChatDev's store type %r was registered by others; devmem's is left out", name)
        return
    try:
        summary = registry.summary(name)
    except StoreTypeError as error:
        _LOG.warning("devmem's store type %r cannot be used in ChatDev: %s", name, error)
        return
    base = specs[name].config_cls if name in specs else BaseConfig
    for mapping in (entries, specs):
        _installed.callback(_restore, mapping, name, mapping.pop(name, None))
    make = functools.partial(DevmemMemory, store_type=name, installation=installation)
    register_memory_store(name, config_cls=config_class(name, base), factory=make, summary=summary)


def _restore(mapping: MutableMapping[str, Any], name: str, former: object) -> None:
    mapping.pop(name, None)
    if former is not None:
        mapping[name] = former


def _replace(owner: Any, name: str, value: object) -> None:  # noqa: ANN401 - a module or a class
    _installed.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _in_run_folder(build: Callable[[GraphExecutor], None]) -> Callable[[GraphExecutor], None]:
    @functools.wraps(build)
    def building(executor: GraphExecutor) -> None:
        with run_in(executor.graph.directory):
            build(executor)

    return building


def _naming_nodes(build: Callable[[GraphExecutor], None]) -> Callable[[GraphExecutor], None]:
    @functools.wraps(build)
    def building(executor: GraphExecutor) -> None:
        build(executor)
        for node, manager in executor.agent_memory_managers.items():
            if isinstance(manager, DevmemMemoryManager):
                manager.node = node

    return building
