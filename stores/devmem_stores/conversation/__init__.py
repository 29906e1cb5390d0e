"""The `conversation` store: everything users, agents, tools and models say to each other, recorded once."""

from devmem_stores.conversation.config import ConversationConfig
from devmem_stores.conversation.store import ConversationMemory

__all__ = ["ConversationConfig", "ConversationMemory"]
