"""The form of one block of a workflow, found by a path of breadcrumbs as DevAll's (ChatDev 2) front end sends it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from devmem.config.base import ConfigModel
from devmem.config.fields import FieldSpec, field_specs
from devmem.config.store_types import StoreTypes
from devmem.config.wording import choices, did_you_mean, quoted
from devmem.config.workflow import WorkflowDocument
from devmem.errors import FormPathError

FORM_VERSION: Final = "0.1.0"
"""Version of the form's own layout, as DevAll counts it."""


def form(store_types: StoreTypes, breadcrumbs: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the form of a block as JSON data: `schemaVersion`, `node`, `fields`, `breadcrumbs` and `cacheKey`.

    The cache key covers the fields too, so that it changes when a store type is installed.

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
    name = crumb.get("field")
    if name is None:
        return model
    specs = {spec.name: spec for spec in field_specs(model, store_types)}
    if name not in specs:
        hint = f"{model.__name__} has no field {quoted(str(name))}{did_you_mean(name, specs)}"
        raise FormPathError(f"{hint} Fields: {choices(specs)}.")
    return _child(model, specs[name], crumb.get("value"))


def _child(model: type[ConfigModel], spec: FieldSpec, value: object) -> type[ConfigModel]:
    routes = {route.value: route.model for route in spec.child_routes}
    if routes:
        if isinstance(value, str) and value in routes:
            return routes[value]
        raise FormPathError(f"the field {spec.name!r} of {model.__name__} needs `value`, one of {choices(routes)}")
    if spec.child is None:
        raise FormPathError(f"the field {spec.name!r} of {model.__name__} holds no block")
    return spec.child
