"""The steps of an agent's execution at which memory is retrieved or written."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """A step of an agent's execution, in the order in which they happen."""

    PRE = "pre"
    PLAN = "plan"
    GEN = "gen"
    CRITIQUE = "critique"
    FINISHED = "finished"

    @classmethod
    def _missing_(cls, value: object) -> Stage | None:
        return cls(ALIASES[value]) if isinstance(value, str) and value in ALIASES else None


ALIASES: Final = {"pre_gen_thinking": "plan", "post_gen_thinking": "critique"}
"""DevAll's (ChatDev 2) names of stages; `Stage("pre_gen_thinking") is Stage.PLAN`."""

RETRIEVING: Final = (Stage.PRE, Stage.PLAN, Stage.GEN, Stage.CRITIQUE)
"""The stages at which an attachment that names none retrieves."""
