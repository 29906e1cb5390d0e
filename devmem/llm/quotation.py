"""Answers that only quote what was remembered, and how the next node of a chain recognises them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pydantic import JsonValue

from devmem.messages import Message

_KEY: Final = "quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """Remembered passages that answer a question."""

    question: str = ""
    """Question that the passages were recalled for; blank when it is not known."""
    passages: tuple[str, ...] = ()

    @classmethod
    def in_message(cls, message: Message) -> Self | None:
        """Return the quotation that a message is; None for a message that says something of its own."""
        found = message.metadata.get(_KEY)
        if not found:
            return None
        fields = found if isinstance(found, Mapping) else {}
        passages = fields.get("passages")
        return cls(
            question=str(fields.get("question") or ""),
            passages=tuple(map(str, passages)) if isinstance(passages, list | tuple) else (),
        )

    @classmethod
    def joined(cls, quotations: Iterable[Self]) -> Self:
        """Join quotations: the last question that is known, every passage once."""
        found = list(quotations)
        question = next((each.question for each in reversed(found) if each.question), "")
        return cls(question=question, passages=tuple(dict.fromkeys(text for each in found for text in each.passages)))

    def metadata(self) -> dict[str, JsonValue]:
        """Return the metadata of a message that is this quotation."""
        return {_KEY: {"question": self.question, "passages": list(self.passages)}}
