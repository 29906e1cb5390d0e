"""The condition under which an edge is followed, in the forms that DevAll (ChatDev 2) has."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from devmem.config.base import ConfigModel

_ALWAYS, _NEVER = "true", "always_false"


class ConditionConfig(ConfigModel):
    """Settings of a condition: a function's name, or keywords."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = _ALWAYS
    """For `function`: `true`, or a Python function of DevAll, which devmem does not call."""
    include: tuple[str, ...] = Field(default=(), validation_alias="any")
    """For `keyword`: texts of which one must occur."""
    exclude: tuple[str, ...] = Field(default=(), validation_alias="none")
    """For `keyword`: texts of which none may occur; this comes first."""
    regex: tuple[str, ...] = ()
    """For `keyword`: regular expressions of which one may match instead of a text of `any`."""
    case_sensitive: bool = True
    """For `keyword`: whether upper and lower case differ."""


class EdgeCondition(ConfigModel):
    """Decides by the text of an edge's source whether the edge is followed."""

    model_config = ConfigDict(extra="ignore")

    type: Literal["function", "keyword"] = "function"
    """Kind of condition; `function` is evaluated for `true` alone."""
    config: ConditionConfig = Field(default_factory=ConditionConfig)
    """Settings of the condition."""

    @model_validator(mode="before")
    @classmethod
    def _take_short_forms(cls, value: object) -> object:
        """Read `true`, null and the name of a function."""
        if value is None or value is True:
            return {}
        if value is False:
            return {"config": {"name": _NEVER}}
        return {"config": {"name": value}} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_keywords(self) -> Self:
        config = self.config
        if self.type == "keyword" and not (config.include or config.exclude or config.regex):
            raise ValueError("a condition of type `keyword` needs `any`, `none` or `regex`")
        for pattern in config.regex:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from error
        return self

    @property
    def function(self) -> str | None:
        """Name of the Python function that would have to be called; None where the condition can be evaluated."""
        if self.type == "keyword" or self.config.name in (_ALWAYS, _NEVER):
            return None
        return self.config.name

    def holds(self, text: str) -> bool:
        """Whether the edge is followed after its source said `text`; never where a function would decide."""
        if self.type == "function":
            return self.config.name == _ALWAYS
        config = self.config
        fold = str if config.case_sensitive else str.lower
        if any(word and fold(word) in fold(text) for word in config.exclude):
            return False
        flags = 0 if config.case_sensitive else re.IGNORECASE
        return (
            not (config.include or config.regex)
            or any(word and fold(word) in fold(text) for word in config.include)
            or any(re.search(pattern, text, flags) for pattern in config.regex)
        )


_SHORT_FORMS: dict[str, Any] = {
    "description": "true, the name of a function, or `type` and `config` of a condition.",
    "anyOf": [{"type": "boolean"}, {"type": "string"}, {"type": "null"}, {"type": "object"}],
}
Condition = Annotated[EdgeCondition, WithJsonSchema(_SHORT_FORMS, mode="validation")]
