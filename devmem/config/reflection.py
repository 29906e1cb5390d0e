"""Facts about a configuration model that need no instance: its keys, and the fields along a path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from devmem.config.base import Annotation
from devmem.config.document import Path


def keys_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """Return the keys that YAML may use for a field, the preferred one first."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(choice for choice in alias.choices if isinstance(choice, str))
    return (alias if isinstance(alias, str) else name,)


def all_keys(models: Sequence[type[BaseModel]]) -> list[str]:
    """Return every key that one of the models reads, in their order."""
    keys = (key for model in models for name, field in model.model_fields.items() for key in keys_of(name, field))
    return list(dict.fromkeys(keys))


def one_line(text: str) -> str:
    """Return a docstring's text without its line breaks."""
    return " ".join(text.split())


def models_in(annotation: Annotation) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names, inside unions and containers too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def field_at(model: type[BaseModel], path: Path) -> tuple[tuple[type[BaseModel], ...], Annotation]:
    """Return the models that may stand at a path below `model`, and the annotation of the field there, if any."""
    models: tuple[type[BaseModel], ...] = (model,)
    annotation: Annotation = None
    for step in path:
        if isinstance(step, int):
            continue
        annotations = [
            field.annotation
            for one in models
            for name, field in one.model_fields.items()
            if step in keys_of(name, field)
        ]
        annotation = annotations[0] if annotations else None
        models = tuple(dict.fromkeys(inner for one in annotations for inner in models_in(one)))
    return models, annotation
