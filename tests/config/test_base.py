"""Promises of every configuration model."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import pytest
from pydantic import Field, SecretStr, ValidationError

from devmem.config import ConfigModel


class Level(IntEnum):
    LOW = 1


class Inner(ConfigModel):
    size: int = 3


class SampleConfig(ConfigModel):
    number: int | None = None
    share: float = 0.5
    flag: bool = False
    either: bool | int = False
    level: Level = Level.LOW
    text: str = "x"
    text_or_none: str | None = "x"
    secret: SecretStr | None = None
    path: Path | None = None
    inner: Inner = Inner()
    several: tuple[str, ...] = ("a",)
    made: dict[str, int] = Field(default_factory=lambda: {"a": 1})


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": True},
        {"share": False},
        {"flag": 1},
        {"flag": 0.0},
        {"share": float("nan")},
        {"number": ""},
        {"text": None},
        {"flag": None},
        {"nmber": 1},
        {5: 1},
    ],
)
def test_refused(wrong: dict[object, object]) -> None:
    with pytest.raises(ValidationError):
        SampleConfig.model_validate(wrong)


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"number": None}, "number", None),
        ({"number": "5"}, "number", 5),
        ({"flag": "no"}, "flag", False),
        ({"either": True}, "either", True),
        ({"level": Level.LOW}, "level", Level.LOW),
        ({"text": ""}, "text", ""),
        ({"text_or_none": ""}, "text_or_none", None),
        ({"secret": ""}, "secret", None),
        ({"path": ""}, "path", None),
        ({"inner": None}, "inner", Inner()),
        ({"several": None}, "several", ("a",)),
        ({"made": None}, "made", {"a": 1}),
    ],
)
def test_accepted(given: dict[str, object], key: str, value: object) -> None:
    assert getattr(SampleConfig.model_validate(given), key) == value
