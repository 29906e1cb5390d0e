"""Descriptions of a model's fields for form builders, in the shape that DevAll's front end reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from devmem.config.base import Annotation, ConfigModel
from devmem.config.docstrings import field_description
from devmem.config.embedding import EmbeddingConfig
from devmem.config.reflection import keys_of, models_in, one_line
from devmem.config.store import StoreDeclaration
from devmem.config.store_types import StoreTypes
from devmem.config.variants import Variant, variants


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumOption:
    """One value to choose."""

    value: str
    description: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the option as JSON data."""
        described = {} if self.description is None else {"description": self.description}
        return {"value": self.value, "label": self.value, **described}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRoute:
    """The model of a block when the `type` beside it has a certain value."""

    field: str
    value: str
    model: type[ConfigModel]

    def to_json(self) -> dict[str, Any]:
        """Return the route as JSON data."""
        return {"childKey": {"field": self.field, "value": self.value}, "childNode": self.model.__name__}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSpec:
    """One field of a form."""

    name: str
    """The key in YAML."""
    display_name: str
    type_hint: str
    """As `str`, `int`, `list[Attachment]`; whether null is allowed is not said."""
    required: bool
    advance: bool
    """Whether most people leave it alone."""
    default: Any = None
    """As JSON data; None when there is none, or when the field is a block of its own."""
    enum_options: tuple[EnumOption, ...] = ()
    description: str | None = None
    child: type[ConfigModel] | None = None
    """The model of the block that the field holds, or of each block in its list."""
    child_routes: tuple[ChildRoute, ...] = ()
    """The possible models, when they depend on the `type` beside the field."""

    @property
    def enum(self) -> tuple[str, ...]:
        """The values to choose from; empty when anything goes."""
        return tuple(option.value for option in self.enum_options)

    def to_json(self) -> dict[str, Any]:
        """Return the field as JSON data; what does not apply is left out."""
        optional = {
            "default": self.default,
            "enum": list(self.enum) or None,
            "enumOptions": [option.to_json() for option in self.enum_options] or None,
            "description": self.description,
            "childNode": self.child.__name__ if self.child else None,
            "childRoutes": [route.to_json() for route in self.child_routes] or None,
        }
        return {
            "name": self.name,
            "displayName": self.display_name,
            "type": self.type_hint,
            "required": self.required,
            "advance": self.advance,
            **{key: value for key, value in optional.items() if value is not None},
        }


def field_specs(model: type[ConfigModel], store_types: StoreTypes | None = None) -> list[FieldSpec]:
    """Describe a model's fields, the required ones first.

    With `store_types`, the `type` of a `StoreDeclaration` lists them and its `config` says which model each has, and
    the `provider` of an `EmbeddingConfig` lists the embedding providers.
    """
    types = variants(model, store_types)
    providers = store_types.embedding_providers() if store_types and model is EmbeddingConfig else ()
    specs = [_spec(model, name, types, providers) for name in model.model_fields]
    return sorted(specs, key=lambda spec: not spec.required)


def _spec(model: type[ConfigModel], name: str, types: Sequence[Variant], providers: Sequence[str]) -> FieldSpec:
    field = model.model_fields[name]
    key = keys_of(name, field)[0]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    routed = types if key == "config" else ()
    description = field_description(model, name)
    return FieldSpec(
        name=key,
        display_name=field.title or key.replace("_", " ").title(),
        type_hint=type_text(field.annotation),
        required=field.is_required(),
        advance=extra.get("advanced") is True,
        default=_default(field),
        enum_options=_options(model, key, types, providers) or tuple(_enumerated(field.annotation)),
        description=one_line(description) if description else None,
        child=None if routed else _child(field),
        child_routes=tuple(ChildRoute(field=key, value=one.value, model=one.model) for one in routed if one.model),
    )


def _child(field: FieldInfo) -> type[ConfigModel] | None:
    found = (one for one in models_in(field.annotation) if issubclass(one, ConfigModel) and one is not ConfigModel)
    return next(found, None)


def _options(
    model: type[ConfigModel], key: str, types: Sequence[Variant], providers: Sequence[str]
) -> tuple[EnumOption, ...]:
    """Return the store types, or the embedding providers; a node's types are not ours to list."""
    if key == "provider":
        return tuple(EnumOption(value=name) for name in providers)
    if key != "type" or model is not StoreDeclaration:
        return ()
    return tuple(EnumOption(value=one.value, description=one.summary) for one in types)


def _enumerated(annotation: Annotation) -> Iterator[EnumOption]:
    origin: Annotation = get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (EnumOption(value=str(member.value)) for member in annotation)
    elif origin is Literal:
        yield from (EnumOption(value=str(value)) for value in get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _enumerated(part)


def _default(field: FieldInfo) -> object:
    if field.is_required():
        return None
    return _json_value(field.get_default(call_default_factory=True, validated_data={}))


def _json_value(value: object) -> object:
    if isinstance(value, (BaseModel, SecretStr)):
        return None
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [_json_value(element) for element in value]
    return str(value) if isinstance(value, Path) else value


def type_text(annotation: Annotation) -> str:
    """Write an annotation the way form builders know types: `str`, `int`, `list[Attachment]`, `dict[str, Any]`."""
    origin: Annotation = get_origin(annotation)
    parts = get_args(annotation)
    if origin is Annotated:
        return type_text(parts[0])
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(type_text(part) for part in parts if part is not NoneType))
    if origin in (list, tuple):
        return f"list[{type_text(parts[0])}]"
    if origin is dict:
        return f"dict[{', '.join(type_text(part) for part in parts)}]"
    if origin is Literal or annotation in (SecretStr, Path):
        return "str"
    return str(getattr(annotation, "__name__", annotation))
