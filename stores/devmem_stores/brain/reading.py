"""Reading one conversation of one user: its messages, its knowledge and its summaries."""

from __future__ import annotations

from devmem import MemoryItem
from devmem.messages import Message
from devmem_stores.brain.keys import ChatKey
from devmem_stores.brain.metagpt_helpers import to_metagpt_history_format
from devmem_stores.brain.services import Services
from devmem_stores.brain.state import BrainState, Summary


class ConversationReader:
    """The properties and methods of a conversation that change nothing."""

    def __init__(self, key: ChatKey, services: Services) -> None:
        self.key = key
        self._services = services

    def snapshot(self) -> BrainState:
        """Return the state as it is now, which has every property of this class that needs no model."""
        state = self._services.states.load(self.key).state
        return self._services.current(state) if state is not None else self._services.rebuilt(self.key)

    @property
    def history(self) -> list[Message]:
        """The messages that are not summarized."""
        return self.snapshot().history

    @property
    def knowledge(self) -> list[Message]:
        """Messages that add knowledge beside the conversation."""
        return self.snapshot().knowledge

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """Summaries of the older messages, in the order of these messages."""
        return self.snapshot().summaries

    @property
    def historical_summary(self) -> str:
        """The texts of the summaries, a line each."""
        return self.snapshot().historical_summary

    @property
    def history_text(self) -> str:
        """The summaries and the history without its last message, a line each."""
        return self.snapshot().history_text

    @property
    def is_history_available(self) -> bool:
        """Whether anything was said."""
        return self.snapshot().is_history_available

    @property
    def last_history_id(self) -> str:
        """Id of the message added last."""
        return self.snapshot().last_history_id

    @property
    def last_talk(self) -> str | None:
        """Last message of the user, until `pop_last_talk` takes it."""
        return self.snapshot().last_talk

    @property
    def is_dirty(self) -> bool:
        """Whether a change is not yet where it should be: in Redis where one is configured, else in the file."""
        return self._services.states.is_dirty(self.key)

    def exists(self, text: str) -> bool:
        """Whether a message of the history has exactly this text."""
        return self.snapshot().exists(text)

    def get_knowledge(self) -> str:
        """Return the knowledge, a line for each message."""
        return self.snapshot().get_knowledge()

    def to_metagpt_history_format(self) -> str:
        """Return the history as JSON: a list of `{"content": ..., "role": ...}`."""
        return to_metagpt_history_format(self.history)

    def sources(self, summary: Summary) -> list[MemoryItem]:
        """Return the items that a summary was made of."""
        return self._services.archive.get(list(summary.sources))
