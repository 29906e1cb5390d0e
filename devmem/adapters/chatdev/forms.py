"""Configuration classes for ChatDev's schema, which read a store's block with devmem's keys and describe its form."""

from __future__ import annotations

from dataclasses import field as dataclass_field
from dataclasses import fields, make_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from entity.configs.base import BaseConfig, ConfigError, ConfigFieldSpec, EnumOption, require_mapping

from devmem.adapters.chatdev.settings import declared
from devmem.config import ConfigModel, FieldSpec, field_specs
from devmem.errors import ConfigError as DevmemConfigError
from devmem.registry import registry


def config_class(store_type: str, base: type[BaseConfig] = BaseConfig) -> type[BaseConfig]:
    """Return a ChatDev configuration class whose blocks have the keys of one of devmem's store types.

    Args:
        store_type: name of the type in devmem.
        base: ChatDev's class for the type, by which its code may look for the block.
    """

    def from_dict(cls: type[Any], data: Any, *, path: str) -> Any:  # noqa: ANN401 - the YAML, and ChatDev's class
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


def specs(model: type[ConfigModel]) -> dict[str, ConfigFieldSpec]:
    """Return the fields of a form, by name."""
    return {spec.name: _spec(spec) for spec in field_specs(model, registry)}


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


@cache
def _block_class(model: type[ConfigModel]) -> type[BaseConfig]:
    """Return the class that describes a block within a store's block; nothing is read with it."""
    described = {"field_specs": classmethod(lambda _cls: specs(model))}
    return make_dataclass(model.__name__, [], bases=(BaseConfig,), namespace=described)
