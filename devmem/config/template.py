"""A YAML file that shows every key a workflow may have, with its type and default."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from devmem.config.base import ConfigModel
from devmem.config.fields import FieldSpec, field_specs
from devmem.config.store_types import StoreTypes
from devmem.config.workflow import WorkflowDocument

_HEADER: Final = """\
# Every key that a workflow may have, as <type> | <default>; this is to look at, not to run.
# DevAll's workflows have the same keys under `graph:`, except `version` and `vars`.
"""
_LEADING_STR: Final = re.compile(r"^str\b")
_ANYTHING: Final = "<value> | required"


def design_template(store_types: StoreTypes, version: str | None = None) -> str:
    """Return the template as YAML; `version` is what its `version` key says, if given."""
    document = _Template(store_types).block(WorkflowDocument, ())
    if version is not None:
        document["version"] = version
    return _HEADER + yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


class _Template:
    def __init__(self, store_types: StoreTypes) -> None:
        self._store_types = store_types

    def block(self, model: type[ConfigModel], above: tuple[type[ConfigModel], ...]) -> dict[str, Any]:
        path = (*above, model)
        if model in above:
            names = " → ".join(one.__name__ for one in path)
            return {f"<recursive[{model.__name__}] path: {names}>": "see above"}
        return {spec.name: self._field(spec, path) for spec in field_specs(model, self._store_types)}

    def _field(self, spec: FieldSpec, path: tuple[type[ConfigModel], ...]) -> object:
        if spec.child_routes:
            return {
                f"<variant[{route.field}]={route.value}>": _listed(spec, self.block(route.model, path))
                for route in spec.child_routes
            }
        if spec.child is not None:
            return _listed(spec, self.block(spec.child, path))
        if spec.type_hint.startswith("dict"):
            return {"<key>": _ANYTHING}
        if spec.type_hint.startswith("list"):
            inner = spec.type_hint.removeprefix("list[").removesuffix("]")
            return [_scalar(inner, spec, default=None)]
        return _scalar(spec.type_hint, spec, default=spec.default)


def _listed(spec: FieldSpec, block: object) -> object:
    return [block] if spec.type_hint.startswith("list") else block


def _scalar(type_: str, spec: FieldSpec, *, default: object) -> str:
    name = _LEADING_STR.sub("string", type_)
    if spec.enum:
        return f"<{name}> | [{', '.join(spec.enum)}]"
    return f"<{name}> | {_default(default, required=spec.required)}"


def _default(value: object, *, required: bool) -> str:
    if value is None:
        return "required" if required else "None"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "{}"
    return "[]" if isinstance(value, Sequence) else str(value)
