"""The part of a global memory that an agent reads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from devmem.config.base import ConfigModel
from devmem.model.interactions import ParticipantType


class ViewConfig(ConfigModel):
    """The part of a global memory that an agent reads: by default its own questions and answers, the latest of them."""

    agent_id: str | None = Field(default=None, min_length=1)
    """Name of the agent whose interactions are seen; absent means the agent that asks."""
    all_agents: bool = False
    """See the interactions of all agents."""
    memory_types: tuple[ParticipantType, ...] = (ParticipantType.USER, ParticipantType.AGENT)
    """Counterparts whose exchanges with the agent are seen; add `tool`, `llm` or `knowledge` for calls of those."""
    order: Literal["chronological", "search"] = "chronological"
    """The latest interactions in their order, or those that fit the query best."""
    skip_current_trace: bool = True
    """Leave out the trace in progress, which the agent knows from its input."""
    summaries: bool = True
    """Put the last summary in the place of the records that it stands for."""
    max_tokens: int | None = Field(default=2000, ge=20)
    """Maximum number of estimated tokens that are shown of the latest interactions; the newest stay."""
