"""A record as an item and back, and as a sentence that an agent reads, within a token budget."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from devmem import Filter, Hit, MemoryContentSnapshot, MemoryItem, Scope
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.storage import Condition, absent, differs_from, one_of
from devmem.stores import FACT_KEY, TRUST, Provenance, Said, SourceKind, exchange_of
from devmem.text import estimate_tokens, indented, shorten

RECORD_KEY: Final = "interaction"
"""Metadata key that marks a record. The keys of its JSON form, but its content, stand beside it, so that filters on
`source`, `target`, `type` and the others work."""
_CONTENT: Final = "content"
"""Key of the JSON form that the item's snapshot holds."""
_KINDS: Final[Mapping[ParticipantType, SourceKind]] = {
    ParticipantType.USER: SourceKind.USER,
    ParticipantType.TOOL: SourceKind.TOOL,
}


def interaction_to_item(interaction: Interaction, *, stored_at: float, summary_length: int) -> MemoryItem:
    """Return the item that keeps a record whole, under the record's id.

    Args:
        interaction: the record.
        stored_at: now, in seconds since the epoch.
        summary_length: maximum number of characters that are shown of it.
    """
    form = {key: value for key, value in interaction.to_json().items() if key != _CONTENT}
    source = interaction.source
    is_summary = interaction.kind is InteractionKind.SUMMARY
    kind = SourceKind.SUMMARY if is_summary else _KINDS.get(source.type, SourceKind.NODE)
    return MemoryItem(
        id=interaction.id,
        content_summary=shorten(interaction.content, summary_length),
        metadata={RECORD_KEY: True, **form, "speaker": source.name},
        created_at=stored_at,
        event_time=interaction.event_time,
        output_snapshot=MemoryContentSnapshot(text=interaction.content),
        scope=Scope(
            user=interaction.user, conversation=interaction.conversation or None, trace=interaction.trace or None
        ),
        provenance=Provenance(kind=kind, name=source.name),
        trust=TRUST[kind],
    )


def item_to_interaction(item: MemoryItem) -> Interaction | None:
    """Return the record that an item keeps; None for an item that is none."""
    if item.metadata.get(RECORD_KEY) is not True:
        return None
    snapshot = item.output_snapshot or item.input_snapshot
    text = snapshot.text if snapshot else item.content_summary
    try:
        return Interaction.from_json({**item.metadata, _CONTENT: text})
    except (KeyError, TypeError, ValueError):
        # Imported from elsewhere, or edited: it is an item like any other, and no record.
        return None


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
        language: of the sentence; the content stays unchanged.
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


_SPEAKING: Final = (ParticipantType.AGENT.value, ParticipantType.USER.value)
_SIDES: Final = (("source", "target"), ("target", "source"))
_SUMMARY: Final = InteractionKind.SUMMARY.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """A choice among all records."""

    agent: str | None = None
    """Name of the agent; None sees the records of all."""
    counterparts: Collection[ParticipantType | str] = frozenset({ParticipantType.USER, ParticipantType.AGENT})
    """Types of the other side, or their names."""
    without_trace: str | None = None
    """A trace that is left out."""

    def __post_init__(self) -> None:
        """Refuse a type that does not exist; raises `ValueError`."""
        object.__setattr__(self, "counterparts", frozenset(map(ParticipantType, self.counterparts)))

    def filter(self, where: Filter) -> Filter:
        """Return the filter that admits what is part of the view and matches another filter.

        Summaries are no part of it, since they stand for other records. Items that are not records, as of an import,
        are part of the view of all agents alone.
        """
        parts, types = list[Filter](), one_of(*sorted(map(str, self.counterparts)))
        for mine, other in _SIDES:
            me = {f"{mine}_type": one_of(*_SPEAKING)} if self.agent is None else _views_named(mine, self.agent)
            sides: dict[str, str | Condition] = {**me, f"{other}_type": types, "type": differs_from(_SUMMARY)}
            parts.append(Filter(metadata=sides, any_of=where.any_of))
        if self.agent is None:
            parts.append(Filter(metadata={RECORD_KEY: differs_from(True)}, any_of=where.any_of))
        traces = {} if self.without_trace is None else {"trace": differs_from(self.without_trace)}
        return replace(
            where,
            scope=replace(where.scope, agent=None),
            scope_in={**traces, **where.scope_in},
            any_of=tuple(parts),
        )


def by_participant(where: Filter) -> Filter:
    """Return a filter by agent as one by participant.

    No record is an agent's own: the records of an agent are those in which it is the source or the target.
    """
    agent = where.scope.agent
    if agent is None:
        return where
    free = replace(where, scope=replace(where.scope, agent=None))
    if where.include_unscoped:
        # Every record is bound to no agent.
        return free
    sides = tuple(Filter(metadata=_views_named(side, agent), any_of=where.any_of) for side, _ in _SIDES)
    bound = Filter(scope=Scope(agent=agent), any_of=where.any_of)
    return replace(free, any_of=(*sides, bound))


def summaries_for(agent: str | None, where: Filter) -> Filter:
    """Return the filter of the summaries that were made of an agent's view; None are those of all records."""
    made_for = {"type": _SUMMARY, "target": agent or ""}
    return replace(where, scope=replace(where.scope, agent=None), metadata={**where.metadata, **made_for})


def _views_named(side: str, agent: str) -> Mapping[str, str]:
    return {side: agent, f"{side}_type": ParticipantType.AGENT.value}


def without_facts(where: Filter) -> Filter:
    """Return a filter that leaves out facts: in a chronological view their turns say the same."""
    return replace(where, metadata={**where.metadata, FACT_KEY: absent()})


_SIDE_KEYS: Final = ("source", "source_type", "target", "target_type")


def participants_in(item: MemoryItem) -> dict[str, str]:
    """Return the metadata of a record that say who took part in it; none of an item that is not a record."""
    found = {key: item.metadata.get(key) for key in _SIDE_KEYS}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def said_in(item: MemoryItem) -> list[Said]:
    """Return who said what in a record between users and agents; nothing for calls of tools, models and knowledge."""
    record = item_to_interaction(item)
    if record is None:
        return exchange_of(item)
    if not {record.source.type, record.target.type} <= {ParticipantType.USER, ParticipantType.AGENT}:
        return []
    said = [Said(record.source.name or record.source.type.value, record.content)]
    question = _ROLE.sub("", item.input_snapshot.text).strip() if item.input_snapshot else ""
    if question and record.kind is InteractionKind.OUTPUT:
        # Written by an attachment, which keeps the question beside its answer.
        said.insert(0, Said(record.target.name or record.target.type.value, question))
    return [one for one in said if one.text.strip()]


_WORTH_SHOWING: Final = 20
"""Least number of tokens of room for which an older text is shortened and not left out."""


def newest_within(texts: Sequence[str], max_tokens: int) -> list[str]:
    """Return the last of the texts that fit together, in their order.

    The first that does not fit whole is shortened to the room that is left, the newest of all always; older ones are
    left out.
    """
    kept: list[str] = []
    room = max_tokens
    for text in reversed(texts):
        tokens = estimate_tokens(text)
        if tokens > room:
            if not kept or room >= _WORTH_SHOWING:
                kept.append(within(text, room))
            break
        kept.append(text)
        room -= tokens
    return kept[::-1]


def within(text: str, max_tokens: int) -> str:
    """Return a text, shortened where it has more than `max_tokens` estimated tokens."""
    if estimate_tokens(text) <= max_tokens:
        return text
    too_long = bisect_right(range(len(text)), max_tokens, key=lambda length: estimate_tokens(shorten(text, length)))
    return shorten(text, max(too_long - 1, 1))


_ROLE: Final = re.compile(r"\A\((?:system|user|assistant|tool)\) ")
"""The role that a snapshot of messages begins with."""


def worded(item: MemoryItem, *, me: str | None, language: Language) -> MemoryItem:
    """Return an item with its record worded as a sentence; one that is not a record is unchanged.

    Args:
        item: the item.
        me: name of the agent that reads it, which is addressed as "you".
        language: of the sentence.
    """
    record = item_to_interaction(item)
    if record is None:
        return item
    shown = sentence(replace(record, content=item.content_summary), me=me, language=language)
    question = _ROLE.sub("", item.input_snapshot.text).strip() if item.input_snapshot else ""
    if question and record.kind is InteractionKind.OUTPUT:
        # An attachment wrote the answer with its question beside it.
        asked = replace(
            record, kind=InteractionKind.INPUT, content=question, source=record.target, target=record.source
        )
        shown = f"{sentence(asked, me=me, language=language)}\n{shown}"
    return replace(item, content_summary=shown)


def chronological_hits(items: Sequence[MemoryItem], max_tokens: int | None) -> list[Hit]:
    """Return items, the oldest first, as hits in their order; the newest ones that are within a token budget."""
    texts = [item.content_summary for item in items]
    kept = texts if max_tokens is None else newest_within(texts, max_tokens)
    shown = zip(items[len(items) - len(kept) :], kept, strict=True)
    return [
        Hit(item=item if item.content_summary == text else replace(item, content_summary=text), score=1 / (1 + place))
        for place, (item, text) in enumerate(shown)
    ]
