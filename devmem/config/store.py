"""A store as the workflow declares it: an entry of `memory`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SerializeAsAny

from devmem.config.base import ConfigModel
from devmem.config.place import Placed


def _one_line(value: str) -> str:
    # The name heads the store's section in the text that a model is shown.
    if value != value.strip() or not value.isprintable():
        raise ValueError("expected text on one line, without blanks around it")
    return value


class StoreDeclaration(Placed):
    """A named memory: of which type it is, and that type's settings."""

    name: Annotated[str, AfterValidator(_one_line)] = Field(min_length=1)
    """Name by which agents attach the store; unique in the workflow."""
    type: str = Field(min_length=1)
    """Kind of store, which decides what is kept and how it is found."""
    config: SerializeAsAny[ConfigModel] = Field(default_factory=ConfigModel)
    """Settings of the type; none means the type's defaults."""
