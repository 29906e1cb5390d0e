"""Whose conversation a state belongs to, and the keys made of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote

from devmem import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatKey:
    """One conversation of one user; empty where nobody said whose it is."""

    user: str = ""
    chat: str = ""

    @classmethod
    def of(cls, scope: Scope) -> Self:
        """Give the conversation of a scope: its conversation, or else its session."""
        return cls(user=scope.user or "", chat=scope.conversation or scope.session or "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` gives."""
        user, _, chat = text.partition(":")
        return cls(user=_unescaped(user), chat=_unescaped(chat))

    def __str__(self) -> str:
        return f"{escaped(self.user)}:{escaped(self.chat)}"

    def scope(self) -> Scope:
        """Give the scope of what is said in it."""
        return Scope(user=self.user or None, conversation=self.chat or None)

    def item_id(self, message_id: str) -> str:
        """Name the item that keeps a message: chats may number their messages alike."""
        return f"{self}:{escaped(message_id)}" if self.user or self.chat else message_id


def escaped(part: str) -> str:
    """Escape what separates the parts of a key, and everything else that is not plain ASCII."""
    return quote(part, safe="", errors="surrogatepass")


def _unescaped(part: str) -> str:
    return unquote(part, errors="surrogatepass")
