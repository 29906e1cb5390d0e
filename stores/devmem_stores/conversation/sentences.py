"""Records as sentences of who told whom what, for prompts and for people, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.stores import indented

Language = Literal["en", "zh"]
_TYPES: Final[Mapping[Language, Mapping[ParticipantType, str]]] = {
    "en": {
        ParticipantType.USER: "user",
        ParticipantType.AGENT: "agent",
        ParticipantType.TOOL: "tool",
        ParticipantType.LLM: "model",
        ParticipantType.KNOWLEDGE: "knowledge base",
        ParticipantType.UNKNOWN: "somebody",
    },
    "zh": {
        ParticipantType.USER: "用户",
        ParticipantType.AGENT: "智能体",
        ParticipantType.TOOL: "工具",
        ParticipantType.LLM: "模型",
        ParticipantType.KNOWLEDGE: "知识库",
        ParticipantType.UNKNOWN: "某方",
    },
}
_YOU: Final[Mapping[Language, str]] = {"en": "you", "zh": "你"}
_ASKED: Final = frozenset({ParticipantType.USER, ParticipantType.AGENT, ParticipantType.LLM, ParticipantType.UNKNOWN})
"""Those who are asked; tools are called, and knowledge is searched."""


def sentence(record: Interaction, *, me: str | None = None, language: Language = "en") -> str:
    """Return a record as a sentence; only its beginning is at the left edge, so that no text forges another one.

    Args:
        record: the record.
        me: name of the agent that reads it, which is addressed as "you".
        language: of the sentence; the content stays as it is.
    """
    source, target = (_named(one, me, language) for one in (record.source, record.target))
    text = _CHINESE if language == "zh" else _ENGLISH
    if record.kind is InteractionKind.INPUT:
        form = text["asked" if record.target.type in _ASKED else record.target.type.value]
    else:
        form = text[record.kind.value]
    said = form.format(source=source, target=target, content=indented(record.content))
    return said[:1].upper() + said[1:]


_ENGLISH: Final[Mapping[str, str]] = {
    "asked": "{source} asked {target}: {content}",
    "tool": "{source} called {target} with: {content}",
    "knowledge": "{source} searched {target} for: {content}",
    "output": "{source} answered {target}: {content}",
    "error": "{source} failed for {target}: {content}",
    "summary": "Summary of what was said before: {content}",
}
_CHINESE: Final[Mapping[str, str]] = {
    "asked": "{source}问{target}:{content}",
    "tool": "{source}调用了{target},参数:{content}",
    "knowledge": "{source}在{target}中查询:{content}",
    "output": "{source}回答{target}:{content}",
    "error": "{source}对{target}的调用失败:{content}",
    "summary": "之前对话的摘要:{content}",
}


def _named(one: Participant, me: str | None, language: Language) -> str:
    if me is not None and one.type is ParticipantType.AGENT and one.name == me:
        return _YOU[language]
    kind = _TYPES[language][one.type]
    if not one.name or one.name == one.type.value:
        return f"the {kind}" if language == "en" else kind
    return f"{kind} {one.name}" if language == "en" else f"{kind}{one.name}"
