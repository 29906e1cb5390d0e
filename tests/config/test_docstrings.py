"""A docstring under a field describes it, wherever the field is declared."""

from __future__ import annotations

from pydantic import Field

from devmem.config import ConfigModel
from devmem.config.base import field_description


class Base(ConfigModel):
    """A model."""

    path: str = ""
    """Where it is,
    in two lines."""
    plain: int = 0
    given: int = Field(default=0, description="As the field says.")
    """Not read."""


class Derived(Base):
    """A model with a field of another kind."""

    plain: int = 1
    """Now it has one."""
    path: str = "x"


def test_descriptions() -> None:
    assert field_description(Base, "path") == "Where it is,\nin two lines."
    assert field_description(Base, "plain") is None
    assert field_description(Base, "given") == "As the field says."
    assert field_description(Derived, "given") == "As the field says."
    assert field_description(Derived, "plain") == "Now it has one."
    assert field_description(Derived, "path") is None


def test_a_class_without_source_has_none() -> None:
    names: dict[str, type[ConfigModel]] = {}
    exec("from devmem.config import ConfigModel\nclass Made(ConfigModel):\n    x: int = 0\n    '''Text.'''", names)
    assert field_description(names["Made"], "x") is None
