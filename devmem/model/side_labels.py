"""The labels of the two sides of an exchange in a summary, as stored and as shown in another language.

Stores write `Input: ` and `Output: ` whatever language they are shown in, so that a file reads the same everywhere.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from devmem.model.results import Hit

Language: TypeAlias = Literal["en", "zh"]
"""Languages of what devmem itself says in a prompt."""

SIDES: Final = ("Input: ", "Output: ")
"""Labels of what was said and what was answered in a stored summary."""
_SHOWN: Final[dict[Language, tuple[str, str]]] = {"en": SIDES, "zh": ("输入: ", "输出: ")}
NAMES: Final = frozenset(label.rstrip(": ").casefold() for labels in _SHOWN.values() for label in labels)
"""The labels without their colon, in every language, in lower case."""


def labelled_text(hit: Hit, language: Language) -> str:
    """Return the text of a hit with the labels of the sides that its item has in another language.

    Only labels at the left edge of a summary are a store's own: lines of what was said are indented there.
    """
    text, item = hit.text(), hit.item
    for side, snapshot in enumerate((item.input_snapshot, item.output_snapshot)):
        stored, shown = SIDES[side], _SHOWN[language][side]
        if snapshot is not None and stored != shown:
            text = _with_label(text, item.content_summary, stored, shown)
    return text


def _with_label(text: str, summary: str, stored: str, shown: str) -> str:
    if summary.startswith(stored):
        return text.replace(stored, shown, 1)
    return text.replace(f"\n{stored}", f"\n{shown}", 1) if f"\n{stored}" in summary else text
