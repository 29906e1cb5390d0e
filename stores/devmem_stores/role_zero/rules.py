"""When related messages are recalled, what they are related to, and which of them are worth it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from devmem.messages import Message, Role
from devmem_stores.role_zero.config import RankerConfig, RoleZeroConfig
from devmem_stores.role_zero.ranking import Ranker


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Facts that a trigger decides by."""

    k: int
    """Number of newest messages that were asked for; 0 is the window."""
    last: Message | None
    """The message that was added last; None when there is none."""
    count: int
    """Number of messages in the memory."""
    memory_k: int
    """Number of messages in the window; 0 for a node of a workflow, which is not given the window."""
    shown: int
    """Number of newest messages that are given anyway."""


Trigger: TypeAlias = Callable[[Situation], bool]
"""Whether related messages are searched for."""
QueryBuilder: TypeAlias = Callable[[Sequence[Message]], str]
"""Makes the text to search for from the newest messages, oldest first; a blank one searches for nothing."""
Importance: TypeAlias = Callable[[Message], float]
"""Rates a message from 0 (not worth recalling) to 1."""

_TRIVIAL: Final = 0.2
_BY_ROLE: Final = {Role.USER: 0.8, Role.ASSISTANT: 0.6, Role.SYSTEM: 0.5, Role.TOOL: 0.4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules that the memories of a store follow."""

    config: RoleZeroConfig
    trigger: Trigger
    query_builder: QueryBuilder
    ranker: Ranker | None
    importance: Importance
    earlier_messages: int
    """Number of stored messages that the query builder reads beside the last one."""

    @property
    def candidates(self) -> int:
        """Number of related messages to search for: those that are recalled, or those that a ranker chooses from."""
        config = self.config
        if self.ranker is None:
            return config.similarity_top_k
        shown = config.llm_ranker.candidates if config.llm_ranker else RankerConfig().candidates
        return max(config.similarity_top_k, shown)


def is_requirement(message: Message | None, team_leaders: Collection[str] = ("Mike",)) -> bool:
    """Whether a user, or a team leader in the user's role, requires something with the message."""
    return (
        message is not None
        and message.is_user_message()
        and (message.is_user_requirement() or message.source in team_leaders)
    )


def on_requirement(situation: Situation, team_leaders: Collection[str] = ("Mike",)) -> bool:
    """Recall as MetaGPT's RoleZero does."""
    overflows = situation.count > situation.memory_k
    return situation.k != 0 and overflows and is_requirement(situation.last, team_leaders)


def whenever_older(situation: Situation) -> bool:
    """Recall when there are more messages than are given anyway."""
    return situation.count > situation.shown


def never(_situation: Situation) -> bool:
    """Recall nothing."""
    return False


def last_message(messages: Sequence[Message]) -> str:
    """Search for what was said last."""
    return messages[-1].text() if messages else ""


def last_turns(messages: Sequence[Message], turns: int = 3) -> str:
    """Search for what was said in the last messages together."""
    return "\n".join(text for message in messages[-turns:] if (text := message.text().strip()))


def importance_of(message: Message) -> float:
    """Take the `importance` in the message's metadata, or rate it by who speaks and whether it says anything.

    What a user requires counts 1, else a user 0.8, a model 0.6, a system prompt 0.5, a tool 0.4; one or two words 0.2.
    """
    given = message.metadata.get("importance")
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        return float(given)
    text = message.text().strip()
    # Scripts without spaces say much in one word.
    if len(text.split()) < 3 and len(text.encode("utf-8", "replace")) < 20 and message.instruct_content is None:
        return _TRIVIAL
    return 1.0 if is_requirement(message) else _BY_ROLE[message.role]


def configured_trigger(config: RoleZeroConfig) -> Trigger:
    """Return the trigger that the configuration names."""
    rules: dict[str, Trigger] = {
        "requirement": partial(on_requirement, team_leaders=config.team_leaders),
        "always": whenever_older,
        "never": never,
    }
    return rules[config.recall]


def configured_query(config: RoleZeroConfig) -> QueryBuilder:
    """Return the query builder that the configuration names."""
    return last_message if config.query == "last_message" else partial(last_turns, turns=config.query_turns)
