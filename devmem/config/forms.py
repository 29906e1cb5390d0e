"""The form of one block of a workflow, found by a path of breadcrumbs as DevAll's (ChatDev 2) front end sends it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr

from devmem.config.base import Annotation, ConfigModel, StoreTypes, field_description, keys_of, models_in, one_line
from devmem.config.findings import choices, did_you_mean, quoted
from devmem.config.store import EmbeddingConfig, StoreDeclaration
from devmem.config.workflow import Variant, WorkflowDocument, variants
from devmem.errors import FormPathError
from devmem.model.filters import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class EnumOption:
    """One value to choose."""

    value: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRoute:
    """The model of a block when the `type` beside it has a certain value."""

    field: str
    value: str
    model: type[ConfigModel]


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
    aliases: tuple[str, ...] = ()
    """Other keys that YAML may use."""
    default: Any = None
    """As JSON data; None when there is none, or when the field is a separate block."""
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
        options = [
            _without_none(value=each.value, label=each.value, description=each.description)
            for each in self.enum_options
        ]
        routes = [
            {"childKey": {"field": each.field, "value": each.value}, "childNode": each.model.__name__}
            for each in self.child_routes
        ]
        return _without_none(
            name=self.name,
            displayName=self.display_name,
            type=self.type_hint,
            required=self.required,
            advance=self.advance,
            default=self.default,
            enum=list(self.enum) or None,
            enumOptions=options or None,
            description=self.description,
            childNode=self.child.__name__ if self.child else None,
            childRoutes=routes or None,
        )


def _without_none(**values: object) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


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
    key, *aliases = keys_of(name, field)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    routed = types if key == "config" else ()
    description = field_description(model, name)
    default = field.get_default(call_default_factory=True, validated_data={})
    children = (one for one in models_in(field.annotation) if issubclass(one, ConfigModel) and one is not ConfigModel)
    options = tuple(EnumOption(value=each) for each in providers if key == "provider")
    if key == "type" and model is StoreDeclaration:
        # A node's types are not ours to list.
        options = tuple(EnumOption(value=one.value, description=one.summary) for one in types)
    return FieldSpec(
        name=key,
        display_name=field.title or key.replace("_", " ").title(),
        type_hint=type_text(field.annotation),
        required=field.is_required(),
        advance=extra.get("advanced") is True,
        aliases=tuple(aliases),
        default=None if field.is_required() else _json_value(default),
        enum_options=options or tuple(_enumerated(field.annotation)),
        description=one_line(description) if description else None,
        child=None if routed else next(children, None),
        child_routes=tuple(ChildRoute(field=key, value=one.value, model=one.model) for one in routed if one.model),
    )


def _enumerated(annotation: Annotation) -> Iterator[EnumOption]:
    origin: Annotation = get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from (EnumOption(value=str(member.value)) for member in annotation)
    elif origin is Literal:
        yield from (EnumOption(value=str(value)) for value in get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _enumerated(part)


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
    if annotation is Filter:
        return "dict[str, Any]"
    return str(getattr(annotation, "__name__", annotation))


FORM_VERSION: Final = "0.1.0"
"""Version of the form's own layout, as DevAll counts it."""


def form(store_types: StoreTypes, breadcrumbs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the form of a block as JSON data.

    Its keys are `schemaVersion`, `node`, `fields`, `constraints`, `breadcrumbs` and `cacheKey`. The constraints are
    DevAll's rules between fields, of which no block has any. The cache key covers the fields too, so that it changes
    when a store type is installed.

    Args:
        store_types: the types that the fields `type` and `config` of a store list.
        breadcrumbs: one mapping for each step from the whole document to the block: `node` (the model's name), `field`,
            and where the field's model depends on a type, `value`. None leads to the document itself.

    Raises:
        FormPathError: a step does not fit the model before it.
    """
    model: type[ConfigModel] = WorkflowDocument
    for crumb in breadcrumbs:
        model = _step(model, crumb, store_types)
    content = {
        "schemaVersion": FORM_VERSION,
        "node": model.__name__,
        "fields": [spec.to_json() for spec in field_specs(model, store_types)],
        "constraints": [],
        "breadcrumbs": [
            {key: crumb[key] for key in ("node", "field", "value") if crumb.get(key) is not None}
            for crumb in breadcrumbs
        ],
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return {**content, "cacheKey": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()}


def _step(model: type[ConfigModel], crumb: Mapping[str, Any], store_types: StoreTypes) -> type[ConfigModel]:
    if crumb.get("node") != model.__name__:
        raise FormPathError(f"the step {dict(crumb)} does not start at {model.__name__!r}, where the path is")
    name, value = crumb.get("field"), crumb.get("value")
    if name is None:
        return model
    specs = {spec.name: spec for spec in field_specs(model, store_types)}
    if name not in specs:
        hint = f"{model.__name__} has no field {quoted(str(name))}{did_you_mean(name, specs)}"
        raise FormPathError(f"{hint} Fields: {choices(specs)}.")
    routes = {route.value: route.model for route in specs[name].child_routes}
    child = routes.get(value) if isinstance(value, str) and routes else specs[name].child
    if child is None:
        problem = f"needs `value`, one of {choices(routes)}" if routes else "holds no block"
        raise FormPathError(f"the field {name!r} of {model.__name__} {problem}")
    return child


_HEADER: Final = """\
# Every key that a workflow may have, as <type> | <default>; this is to look at, not to run.
# DevAll's workflows have the same keys under `graph:`, except `version` and `vars`.
"""
_LEADING_STR: Final = re.compile(r"^str\b")
_ANYTHING: Final = "<value> | required"


def design_template(store_types: StoreTypes, version: str | None = None) -> str:
    """Return the template as YAML; `version` is what its `version` key says, if given."""
    document = _block(WorkflowDocument, (), store_types)
    if version is not None:
        document["version"] = version
    return _HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _block(model: type[ConfigModel], above: tuple[type[ConfigModel], ...], store_types: StoreTypes) -> dict[str, Any]:
    """Return the part of the template about a model, which stands within those above it."""
    path = (*above, model)
    if model in above:
        names = " → ".join(one.__name__ for one in path)
        return {f"<recursive[{model.__name__}] path: {names}>": "see above"}
    block: dict[str, Any] = {}
    for spec in field_specs(model, store_types):
        is_list, value = spec.type_hint.startswith("list"), object()
        if spec.child_routes:
            value = {
                f"<variant[{route.field}]={route.value}>": _block(route.model, path, store_types)
                for route in spec.child_routes
            }
        elif spec.child is not None:
            value = _block(spec.child, path, store_types)
        elif spec.type_hint.startswith("dict"):
            value = {"<key>": _ANYTHING}
        elif is_list:
            value = _scalar(spec.type_hint.removeprefix("list[").removesuffix("]"), spec, default=None)
        else:
            value = _scalar(spec.type_hint, spec, default=spec.default)
        block[spec.name] = [value] if is_list else value
    return block


def _scalar(type_: str, spec: FieldSpec, *, default: object) -> str:
    name = _LEADING_STR.sub("string", type_)
    if spec.enum:
        return f"<{name}> | [{', '.join(spec.enum)}]"
    if default is None:
        shown = "required" if spec.required else "None"
    elif isinstance(default, str | bool):
        shown = json.dumps(default, ensure_ascii=False)
    elif isinstance(default, Mapping):
        shown = "{}"
    else:
        shown = "[]" if isinstance(default, Sequence) else str(default)
    return f"<{name}> | {shown}"
