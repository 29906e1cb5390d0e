"""Where a declaration stands in its workflow."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import PrivateAttr

from devmem.config.base import ConfigModel
from devmem.config.document import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a declaration stands; all empty when it was made in code."""

    location: Path = ()
    """Keys and indexes from the document's root, as `("graph", "memory", 0)`; `Workflow.require_resolved` takes it."""
    path: str = ""
    """The same as messages write it, as `graph.memory[0]`."""
    line: int | None = None
    """1-based."""


class Placed(ConfigModel):
    """A model that knows where it was declared: validating it with a `Place` as context tells it."""

    _place: Place = PrivateAttr(default_factory=Place)

    @property
    def place(self) -> Place:
        """Where this was declared."""
        return self._place

    def model_post_init(self, context: object) -> None:
        """Keep the place that validation was given."""
        if isinstance(context, Place):
            self._place = context
