"""agentUniverse's storage of conversation messages over a `conversation` store.

A question and its answer have the same source (the caller) and target (the callee) in agentUniverse; here an answer has
the answerer as its source, and the messages are given back as agentUniverse has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import uuid4

from agentuniverse.agent.memory.conversation_memory.conversation_message import ConversationMessage
from agentuniverse.agent.memory.message import Message

import devmem
from devmem import Filter
from devmem.adapters.agentuniverse.storage import FORM, HOST, MessageStorage, form_of, metadata_of, time_of
from devmem.adapters.hosts import writing
from devmem.recording import Interaction, InteractionKind, Participant, ParticipantType
from devmem.storage import Condition, Order, absent, one_of

_KINDS: Final[Mapping[str, InteractionKind]] = {
    "input": InteractionKind.INPUT,
    "output": InteractionKind.OUTPUT,
    "summarize": InteractionKind.SUMMARY,
    "summary": InteractionKind.SUMMARY,
}
"""Kinds of records by agentUniverse's types; any other type, such as `Q&A`, is what an agent said."""
_TYPES: Final[Mapping[InteractionKind, str]] = {
    InteractionKind.INPUT: "input",
    InteractionKind.OUTPUT: "output",
    InteractionKind.ERROR: "output",
    InteractionKind.SUMMARY: "summarize",
}
_TYPE_KEY: Final = f"extras.{FORM}.type"
_AGENT: Final = ParticipantType.AGENT.value
_ANSWERS: Final = (InteractionKind.OUTPUT, InteractionKind.ERROR)
_SHARED_ID: Final = ConversationMessage.model_fields["id"].default
"""Id that every message without one has: its default is computed once."""


class DevmemConversationStorage(MessageStorage):
    """Messages between users, agents, tools, models and knowledge bases, each once by its id.

    It belongs in the place of agentUniverse's SQLite, Chroma and Elasticsearch storages of conversations. `devmem log`,
    `trace` and `flow` show the same records.
    """

    store_type: ClassVar[str] = "conversation"
    needs_type: ClassVar[bool] = True

    name: str | None = "devmem_conversation_storage"

    def add(
        self, message_list: Sequence[Message], session_id: str | None = None, agent_id: str | None = None, **_: object
    ) -> None:
        """Record messages, all of them or, after an error, none; they are left unchanged.

        A plain `Message`, such as a summary, is recorded as what its source said to itself.

        Raises:
            ValueError: a message has a value without a JSON form.
            CollectionError: they cannot be written.
        """
        if not message_list:
            return
        store: Any = self.memory.store
        now, user = store.setup.clock(), self.memory.guard.new_scope().user
        with writing(HOST, self.memory):
            store.record([_record_of(message, session_id, user, now) for message in message_list])

    def get(
        self,
        session_id: str | None = None,
        agent_id: str | None = None,
        top_k: int = 20,
        trace_id: str | None = None,
        type: str | Sequence[str] | None = None,
        memory_types: Sequence[str] | None = None,
        **_: object,
    ) -> list[ConversationMessage]:
        """Return the last messages as they happened, oldest first.

        Args:
            session_id: of this session; none means of all.
            agent_id: of what this agent was asked and answered; none means of everybody.
            top_k: maximum number of messages.
            trace_id: of this trace.
            type: type of the messages, or several.
            memory_types: with an agent, also its own calls of participants of these types, such as `tool`.

        Raises:
            CollectionError: the messages cannot be read.
        """
        if top_k <= 0:
            return []
        store: Any = self.memory.store
        where = self._matching(session_id, agent_id, trace_id, type, memory_types)
        found = store.recent(top_k, where, order=Order.EVENT)[::-1]
        return [_message_of(record) for item in found if (record := _read(item)) is not None]

    def delete(
        self,
        session_id: str | None = None,
        agent_id: str | None = None,
        trace_id: str | None = None,
        **_: object,
    ) -> None:
        """Erase the messages that a session, an agent's view and a trace have in common; without any of them none.

        A blank name, such as that of an unset variable, matches no one: nothing is erased.

        Raises:
            CollectionError: they cannot be deleted.
        """
        named = [name for name in (session_id, agent_id, trace_id) if name is not None]
        if not named or not all(name.strip() for name in named):
            return
        store: Any = self.memory.store
        where = self._matching(session_id, agent_id, trace_id)
        with writing(HOST, self.memory):
            store.erase(where=where)

    def _matching(
        self,
        session_id: str | None,
        agent_id: str | None,
        trace_id: str | None,
        types: str | Sequence[str] | None = None,
        memory_types: Sequence[str] | None = None,
    ) -> Filter:
        where = Filter(metadata={"interaction": True, **({"trace_id": trace_id} if trace_id else {})})
        if agent_id:
            where &= _any_of(_view_of(agent_id, memory_types or ()))
        if types:
            named = [types] if isinstance(types, str) else types
            # Records that devmem made have no type of agentUniverse's, and are of their kind's.
            kinds = one_of(*(kind.value for kind, type_ in _TYPES.items() if type_ in named))
            where &= _any_of([{_TYPE_KEY: one_of(*named)}, {_TYPE_KEY: absent(), "type": kinds}])
        return self.memory.guard.matching(where, conversation=session_id or None)


def _any_of(parts: Iterable[Mapping[str, str | Condition]]) -> Filter:
    return Filter(any_of=tuple(Filter(metadata=dict(part)) for part in parts))


def _view_of(agent: str, memory_types: Sequence[str]) -> Iterator[Mapping[str, str | Condition]]:
    """Yield metadata of what an agent was asked and answered, and of its calls of participants of some types."""
    by_it: Mapping[str, str] = {"source": agent, "source_type": _AGENT}
    to_it: Mapping[str, str] = {"target": agent, "target_type": _AGENT}
    yield {"type": "input", **to_it}
    yield {"type": one_of("summary", *_ANSWERS), **by_it}
    if memory_types:
        yield {"type": "input", **by_it, "target_type": one_of(*memory_types)}
        yield {"type": one_of(*_ANSWERS), **to_it, "source_type": one_of(*memory_types)}


def _record_of(message: Message, session_id: str | None, user: str | None, now: float) -> Interaction:
    """Return the record of a message."""
    metadata = message.metadata or {}
    kind = _KINDS.get(str(message.type), InteractionKind.OUTPUT)
    if isinstance(message, ConversationMessage):
        caller = _participant(message.source, message.source_type)
        callee = _participant(message.target, message.target_type)
        conversation, trace, further = message.conversation_id, message.trace_id, dict(message.additional_args or {})
    else:
        # A message without two sides is its agent's own.
        caller = callee = _participant(message.source, _AGENT)
        conversation, trace, further = metadata.get("session_id"), None, {}
    answers = kind in _ANSWERS
    content = message.content if isinstance(message.content, str) else str(message.content or "")
    return Interaction(
        id=uuid4().hex if message.id in (None, "", _SHARED_ID) else str(message.id),
        conversation=str(session_id or conversation or ""),
        trace=str(trace or metadata.get("trace_id") or ""),
        source=callee if answers else caller,
        target=caller if answers else callee,
        kind=kind,
        content=content,
        event_time=time_of(message, now),
        pair_id=str(metadata.get("pair_id") or ""),
        params={"params": str(metadata["params"])} if metadata.get("params") else {},
        extras={**further, FORM: form_of(message)},
        user=user,
    )


def _participant(name: str | None, kind: str | None) -> Participant:
    known = {one.value for one in ParticipantType}
    return Participant(name or "unknown", ParticipantType(kind) if kind in known else ParticipantType.UNKNOWN)


def _read(item: devmem.MemoryItem) -> Interaction | None:
    """Return the record that an item keeps; None for one that an import or an edit left without its fields."""
    snapshot = item.output_snapshot or item.input_snapshot
    text = snapshot.text if snapshot is not None else item.content_summary
    try:
        return Interaction.from_json({**item.metadata, "content": text})
    except (KeyError, TypeError, ValueError):
        return None


def _message_of(record: Interaction) -> ConversationMessage:
    """Return the message of a record, with caller and callee as agentUniverse has them."""
    answers = record.kind in _ANSWERS
    caller, callee = (record.target, record.source) if answers else (record.source, record.target)
    extras = dict(record.extras)
    form: Any = extras.pop(FORM, None)
    said_at = datetime.fromtimestamp(record.event_time)
    known = (metadata_of(form) or {}) if form else {}
    metadata = {
        "prefix": f"{caller.type.value} {caller.name} - {callee.type.value} {callee.name}" if not form else "",
        "timestamp": said_at,
        "params": str(record.params.get("params", "{}")),
        "pair_id": record.pair_id,
        "gmt_created": said_at,
        **known,
    }
    return ConversationMessage(
        id=record.id,
        trace_id=record.trace or None,
        conversation_id=record.conversation,
        source=caller.name,
        source_type=caller.type.value,
        target=callee.name,
        target_type=callee.type.value,
        type=(form["type"] if form else None) or _TYPES[record.kind],
        content=record.content,
        metadata=metadata,
        additional_args=extras,
    )
