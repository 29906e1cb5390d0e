"""The base of every configuration model, ours and a plugin's."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo


def _mentions(annotation: Any, *wanted: type) -> bool:
    if get_origin(annotation) is None:
        return annotation in wanted
    return any(_mentions(part, *wanted) for part in get_args(annotation))


class ConfigModel(BaseModel):
    """Base of every configuration model: immutable, unknown keys are errors, and a flag is never a number.

    A field's title, description, default and bounds are said once, in its `Field`; the JSON Schema, the form fields and
    the YAML template are made from them. `json_schema_extra={"advanced": True}` marks a field that most people leave alone.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, validate_default=False)

    @field_validator("*", mode="before")
    @classmethod
    def _keep_flags_and_numbers_apart(cls, value: object, info: ValidationInfo) -> object:
        """Refuse `top_k: true` and `read: 1`, which pydantic would take for 1 and true."""
        field = cls.model_fields.get(info.field_name or "")
        if field is None or isinstance(value, Enum):
            return value
        wants_flag = _mentions(field.annotation, bool)
        if isinstance(value, bool) and not wants_flag and _mentions(field.annotation, int, float):
            raise PydanticCustomError("number_expected", "expected a number")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and wants_flag:
            raise PydanticCustomError("flag_expected", "expected true or false")
        return value
