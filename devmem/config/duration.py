"""Durations in configuration: `30d`, `12h`, or a number of seconds."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from devmem.text.durations import parse_duration

Duration: TypeAlias = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}, mode="validation"),
]
"""Seconds, written as a number or as text such as `30d`, `12h`, `1h 30m`."""
