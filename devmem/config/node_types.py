"""The types of nodes that DevAll (ChatDev 2) has, and the settings of those that devmem carries out."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, Field

from devmem.config.base import ConfigModel

NODE_TYPES: Final = {
    "agent": "A step that a language model takes.",
    "literal": "Says a fixed text.",
    "passthrough": "Passes on what it gets.",
    "human": "Asks a person; devmem passes the input on.",
    "python": "Runs code; devmem passes the input on.",
    "subgraph": "Runs another graph; devmem checks it and passes the input on.",
    "loop_counter": "Ends a loop; devmem follows no loops and passes the input on.",
    "loop_timer": "Ends a loop; devmem follows no loops and passes the input on.",
}
"""Name and summary of each type."""
CARRIED_OUT: Final = frozenset({"agent", "literal", "passthrough"})
"""Types that devmem's runner carries out."""


class LiteralConfig(ConfigModel):
    """Settings of a node that says a fixed text."""

    model_config = ConfigDict(extra="ignore")

    content: str = Field(min_length=1)
    """The text."""
    role: Literal["user", "assistant"] = "user"
    """Who is meant to say it."""


class PassthroughConfig(ConfigModel):
    """Settings of a node that passes on what it gets."""

    model_config = ConfigDict(extra="ignore")

    only_last_message: bool = True
    """Pass on the last message alone, not all of them."""
