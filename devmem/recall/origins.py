"""Marks of what did not come from the conversation itself: from a file, a tool, an import or another agent."""

from __future__ import annotations

from typing import Final

from devmem.model.caller import Caller
from devmem.model.items import MemoryItem, SourceKind
from devmem.model.side_labels import Language

_MARKS: Final[dict[Language, dict[SourceKind, tuple[str, str]]]] = {
    "en": {
        SourceKind.FILE: ("(from a file) ", "(file {name}) "),
        SourceKind.TOOL: ("(tool result) ", "(tool {name}) "),
        SourceKind.IMPORT: ("(imported) ", "(imported from {name}) "),
        SourceKind.NODE: ("", "(agent {name}) "),
    },
    "zh": {
        SourceKind.FILE: ("(来自文件)", "(文件 {name})"),
        SourceKind.TOOL: ("(工具结果)", "(工具 {name})"),
        SourceKind.IMPORT: ("(导入)", "(导入自 {name})"),
        SourceKind.NODE: ("", "(智能体 {name})"),
    },
}
"""Mark without and with a name, by kind; what users say and summaries have none."""
_AGENT: Final = "agent"
"""Metadata key of the name of the agent that wrote an item."""
_LONGEST_NAME: Final = 40


def origin_mark(item: MemoryItem, reader: Caller, language: Language) -> str:
    """Return the mark of an item's origin; empty for a user's words, a summary, and what the reader said itself.

    Another agent's words are marked only where the reader is known and the text does not begin with the agent's name,
    so that the turns of a conversation stay as they are.
    """
    marks = _MARKS[language].get(item.provenance.kind)
    if marks is None:
        return ""
    name = _name_of(item)
    if item.provenance.kind is SourceKind.NODE and (
        not reader.name or _is_by(item, reader) or _begins_with(item.content_summary, name)
    ):
        return ""
    return marks[1].format(name=name) if name else marks[0]


def _is_by(item: MemoryItem, reader: Caller) -> bool:
    authors = (item.provenance.name, item.metadata.get(_AGENT))
    return any(name in authors for name in (reader.node, reader.agent) if name)


def _begins_with(text: str, name: str) -> bool:
    """Whether a text begins with a name, and not with a longer word; Chinese has no spaces after names."""
    text, name = text.lstrip().casefold(), name.casefold()
    following = text[len(name) : len(name) + 1]
    return bool(name) and text.startswith(name) and not (following.isascii() and following.isalnum())


def _name_of(item: MemoryItem) -> str:
    """Return the name of an item's source, which is stored text, as one short line without brackets."""
    agent = item.metadata.get(_AGENT) if item.provenance.kind is SourceKind.NODE else None
    name = agent if isinstance(agent, str) and agent else item.provenance.name
    plain = " ".join("".join(char if char.isprintable() and char not in "()()" else " " for char in name).split())
    # The end of a path says more than its beginning.
    return plain if len(plain) <= _LONGEST_NAME else f"…{plain[1 - _LONGEST_NAME :]}"
