"""The base of every configuration model, ours and a plugin's."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from devmem.credentials import without_credentials

Annotation: TypeAlias = Any
"""A field's annotation as it is at run time: a class, a union, a generic alias."""


def mentions(annotation: Annotation, *wanted: type) -> bool:
    """Whether a field's annotation is one of the types, or a union or container of them."""
    if get_origin(annotation) is None:
        return annotation in wanted
    return any(mentions(part, *wanted) for part in get_args(annotation))


class ConfigModel(BaseModel):
    """Base of every configuration model: immutable, unknown keys are errors, and a flag is never a number.

    A field's title, description, default and bounds are said once, in its `Field`; the JSON Schema, the form fields and
    the YAML template are made from them. `json_schema_extra={"advanced": True}` marks a field that most leave alone.
    An optional text, path or secret that is given as empty text counts as not given, and so does an empty block.

    A store type that never takes writes says so with `read_only: ClassVar[bool] = True`, and one that a workflow's
    `conversation` block may name with `keeps_records`; one that can take part in a workflow's transaction with
    `keeps_versions`.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        # Docstrings are read, and validators built, when they are first needed: importing a store costs neither.
        defer_build=True,
        validate_default=False,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Return what the representation shows: without the passwords in URLs."""
        for name, value in super().__repr_args__():
            yield name, without_credentials(value) if isinstance(value, str) else value

    @field_validator("*", mode="before")
    @classmethod
    def _keep_flags_and_numbers_apart(cls, value: object, info: ValidationInfo) -> object:
        """Refuse `top_k: true` and `read: 1`, which pydantic would take for 1 and true."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or isinstance(value, Enum):
            return value
        wants_flag = mentions(field.annotation, bool)
        if isinstance(value, bool) and not wants_flag and mentions(field.annotation, int, float):
            raise PydanticCustomError("number_expected", "expected a number")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and wants_flag:
            raise PydanticCustomError("flag_expected", "expected true or false")
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _take_nothing_for_the_default(cls, value: object, info: ValidationInfo) -> object:
        """Let `base_url: ${BASE_URL:-}` mean that there is none, and `params:` with nothing below it an empty block."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or value not in ("", None):
            return value
        is_optional = mentions(field.annotation, type(None))
        if value == "":
            return None if is_optional and mentions(field.annotation, str, SecretStr, Path) else value
        if is_optional or field.is_required() or not _is_block(field.annotation):
            return value
        return field.get_default(call_default_factory=True, validated_data={})


def _is_block(annotation: Annotation) -> bool:
    origin: Annotation = get_origin(annotation)
    kind = annotation if origin is None else origin
    return isinstance(kind, type) and issubclass(kind, (list, tuple, dict, BaseModel))
