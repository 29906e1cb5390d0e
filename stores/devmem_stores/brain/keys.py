"""The key of a conversation: its user and its chat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from devmem import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatKey:
    """One conversation of one user; empty parts where it is bound to nobody."""

    user: str = ""
    chat: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Return the conversation of a scope: its conversation, or else its session."""
        return cls(user=scope.user or "", chat=scope.conversation or scope.session or "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the key that `str` wrote."""
        user, _, chat = text.partition(":")
        return cls(user=_unescaped(user), chat=_unescaped(chat))

    def __str__(self) -> str:
        return f"{escaped(self.user)}:{escaped(self.chat)}"

    def scope(self) -> Scope:
        """Return the scope of its messages."""
        return Scope(user=self.user or None, conversation=self.chat or None)

    def item_id(self, message_id: str) -> str:
        """Return the id of a message's item: chats may number their messages alike."""
        if self.user or self.chat:
            return f"{self}:{escaped(message_id)}"
        # Without a colon it names no message of another chat; a percent sign would make two ids one.
        return escaped(message_id) if ":" in message_id or "%" in message_id else message_id


def escaped(part: str) -> str:
    """Escape what separates the parts of a key, and everything else that is not plain ASCII."""
    return quote(part, safe="", errors="surrogatepass")


def _unescaped(part: str) -> str:
    return unquote(part, errors="surrogatepass")
