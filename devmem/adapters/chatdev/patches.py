"""Putting devmem's stores and manager in the place of ChatDev's, and back."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import ExitStack
from dataclasses import field as dataclass_field
from dataclasses import fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import runtime.node.agent.memory as memory_package
import schema_registry.registry as schemas
import workflow.graph as graph
from entity.configs.base import BaseConfig, ConfigError, ConfigFieldSpec, EnumOption, extend_path, require_mapping
from entity.configs.node.memory import MemoryAttachmentConfig
from pydantic import ValidationError
from runtime.node.agent.memory import memory_base
from runtime.node.agent.memory.registry import memory_store_registry, register_memory_store
from workflow.graph import GraphExecutor

from devmem import Stage
from devmem.adapters.chatdev.conversion import ATTACHMENT_KEYS, REPLACED, declared
from devmem.adapters.chatdev.stores import ChatDevMemory, DevmemMemoryManager, Installation, run_in
from devmem.config import Attachment, ConfigModel, FieldSpec, field_specs
from devmem.errors import ConfigError as DevmemConfigError
from devmem.errors import PluginError
from devmem.plugins import registry


def config_class(store_type: str, base: type[BaseConfig] = BaseConfig) -> type[BaseConfig]:
    """Return a ChatDev configuration class whose blocks have the keys of one of devmem's store types.

    Args:
        store_type: name of the type in devmem.
        base: ChatDev's class for the type, by which its code may look for the block.
    """

    def from_dict(cls: type[Any], data: Any, *, path: str) -> Any:
        given = dict(require_mapping(data, path))
        _check(store_type, given, path)
        known = {each.name for each in fields(base)} - {"path"}
        plain = {key: value for key, value in given.items() if key in known and isinstance(value, str | int)}
        return cls(path=path, settings=given, **plain)

    return make_dataclass(
        f"Devmem{store_type.title().replace('_', '')}Config",
        [("settings", dict[str, Any], dataclass_field(default_factory=dict))],
        bases=(base,),
        namespace={
            "from_dict": classmethod(from_dict),
            "field_specs": classmethod(lambda _cls: specs(registry.config_model(store_type))),
        },
    )


def _check(store_type: str, given: dict[str, Any], path: str) -> None:
    """Check a block; raise ChatDev's error with every problem at its place."""
    try:
        declared("memory", store_type, given, Path.cwd())
    except DevmemConfigError as error:
        where = "memory[0].config"
        found = [(each.path.removeprefix(where).removeprefix("."), each.message) for each in error.findings]
        raise ConfigError("; ".join(f"{place}: {text}" if place else text for place, text in found), path) from error


def _spec(spec: FieldSpec) -> ConfigFieldSpec:
    options = [EnumOption(value=each.value, description=each.description) for each in spec.enum_options]
    return ConfigFieldSpec(
        name=spec.name,
        type_hint=spec.type_hint,
        required=spec.required,
        display_name=spec.display_name,
        default=spec.default,
        enum=list(spec.enum) or None,
        enum_options=options or None,
        description=spec.description,
        child=_block_class(spec.child) if spec.child else None,
        advance=spec.advance,
    )


def specs(model: type[ConfigModel]) -> dict[str, ConfigFieldSpec]:
    """Return the fields of a form, by name."""
    return {spec.name: _spec(spec) for spec in field_specs(model, registry)}


@cache
def _block_class(model: type[ConfigModel]) -> type[BaseConfig]:
    """Return the class that describes a block within a store's block; nothing is read with it."""
    described = {"field_specs": classmethod(lambda _cls: specs(model))}
    return make_dataclass(model.__name__, [], bases=(BaseConfig,), namespace=described)


_OWN: Final = frozenset(each.name for each in fields(MemoryAttachmentConfig))


def reading_keys(read: Callable[..., MemoryAttachmentConfig]) -> Any:
    """Return ChatDev's `from_dict` of attachments, which keeps the keys of devmem beside ChatDev's own."""

    @functools.wraps(read)
    def from_dict(_cls: type[MemoryAttachmentConfig], data: Any, *, path: str) -> MemoryAttachmentConfig:
        config = read(data, path=path)
        given = {key: value for key, value in data.items() if key not in _OWN}
        _attachments_check(config.name, given, path)
        setattr(config, ATTACHMENT_KEYS, given)
        return config

    return classmethod(from_dict)


def _attachments_check(name: str, given: Mapping[str, Any], path: str) -> None:
    """Check the keys of devmem.

    Raises:
        ConfigError: one is unknown, has a value that it cannot have, or cannot be kept by ChatDev.
    """
    try:
        attachment = Attachment.model_validate({**given, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        known = ", ".join(sorted({*Attachment.model_fields} | _OWN - {"path"}))
        text = f"unknown key; there are {known}" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError(text, extend_path(path, place)) from error
    if attachment.write_stage != (Stage.FINISHED,):
        # Any other would never be written, without a word.
        text = "ChatDev writes when a node has finished, at no other stage"
        raise ConfigError(text, extend_path(path, "write_stage"))


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
    # ChatDev's own keys come first in the form, and stay its own.
    own = MemoryAttachmentConfig.FIELD_SPECS
    _replace(MemoryAttachmentConfig, "FIELD_SPECS", {**own, **specs(Attachment), **own})
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
    except PluginError as error:
        _LOG.warning("devmem's store type %r cannot be used in ChatDev: %s", name, error)
        return
    base = specs[name].config_cls if name in specs else BaseConfig
    for mapping in (entries, specs):
        _installed.callback(_restore, mapping, name, mapping.pop(name, None))
    make = functools.partial(ChatDevMemory, store_type=name, installation=installation)
    register_memory_store(name, config_cls=config_class(name, base), factory=make, summary=summary)


def _restore(mapping: MutableMapping[str, Any], name: str, former: object) -> None:
    mapping.pop(name, None)
    if former is not None:
        mapping[name] = former


def _replace(owner: Any, name: str, value: object) -> None:
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
