"""Context and history of Microsoft Agent Framework over a memory; needs the extra `agent-framework`.

agent = Agent(client=client, context_providers=[DevmemContextProvider(memory), DevmemHistoryProvider(memory)])
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from devmem import Memory
from devmem.adapters.hosts import HostHistory, collection_of, recalled, remember, role_of
from devmem.adapters.hosts import require as _require
from devmem.messages import Message as Remembered
from devmem.messages import Role

_require("agent_framework", package="agent-framework-core", extra="agent-framework")

from agent_framework import ContextProvider, HistoryProvider, Message

if TYPE_CHECKING:
    from agent_framework import AgentSession, Content, SessionContext, SupportsAgentRun

_HOST: Final = "agent_framework"
_FORM: Final = "agent_framework.message"
"""Metadata key of a message of a history as it came, as JSON text."""


class DevmemContextProvider(ContextProvider):  # type: ignore[misc] # not in the environment of the type checkers
    """Recalls before a run what answers its messages, and remembers after it what was said.

    A memory that fails is logged and costs the run nothing.
    """

    def __init__(
        self,
        memory: Memory,
        source_id: str = "devmem",
        *,
        limit: int = 5,
        token_budget: int = 2000,
        remember: bool = True,
        relevance: bool = True,
    ) -> None:
        """Wrap an opened memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the provider never leaves.
            source_id: name of the provider.
            limit: maximum number of memories that are recalled.
            token_budget: maximum size of the recalled block, in estimated tokens.
            remember: whether what is said is remembered; leave it to `DevmemHistoryProvider` where one has the same
                memory.
            relevance: whether nothing is recalled for a message that nothing stored has to do with, such as "ok".
        """
        super().__init__(source_id)
        self._memory, self._limit, self._budget = memory.scoped(), limit, token_budget
        self._remember, self._relevance = remember, relevance

    async def before_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Put what is recalled for the messages of a run before them, quoted."""
        query = "\n".join(message.text for message in context.input_messages if message.text)
        # Whatever other providers added, a history among it; the inputs come last.
        shown = [_text(message) for message in context.get_messages(include_input=True)]
        block = await asyncio.to_thread(
            recalled,
            getattr(agent, "name", None) or _HOST,
            self._memory,
            query,
            shown=shown,
            limit=self._limit,
            token_budget=self._budget,
            relevance=self._relevance,
        )
        if block:
            context.extend_messages(self, [Message("user", [block])])

    async def after_run(
        self, *, agent: SupportsAgentRun, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Remember the messages of a run and its response, those that have a text."""
        answered = list(context.response.messages) if context.response is not None else []
        said = [message for message in (*context.input_messages, *answered) if message.text.strip()]
        if not self._remember or not said:
            return
        messages = [_remembered(message) for message in said]
        writer = getattr(agent, "name", None) or _HOST
        await asyncio.to_thread(remember, writer, self._memory, messages, session=context.session_id)


class DevmemHistoryProvider(HistoryProvider):  # type: ignore[misc] # not in the environment of the type checkers
    """The history of conversations in a memory: every message whole, with tool calls and their results.

    What it keeps is found by searches of the same memory too. A message with an id is kept once.
    """

    def __init__(self, memory: Memory, source_id: str = "devmem_history", **options: Any) -> None:
        """Wrap an opened memory; the caller closes it.

        Args:
            memory: a memory, or a scoped handle, which the provider never leaves.
            source_id: name of the provider.
            options: of `HistoryProvider`: `load_messages`, `store_inputs`, `store_outputs`, `store_context_messages`,
                `store_context_from`.

        Raises:
            TypeError: the memory is of a store type that keeps no collection, such as `mem0`.
        """
        super().__init__(source_id, **options)
        collection_of(memory, "a history")
        self._memory = memory.scoped()

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **_: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first; without a session there are none.

        Raises:
            CollectionError: the memory cannot be read.
        """
        if session_id is None:
            return []
        forms = await asyncio.to_thread(HostHistory(_HOST, _FORM, self._memory, session_id).forms)
        return [Message.from_dict(form) for form in forms]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Append messages to a session, all of them or, after an error, none.

        Raises:
            ValueError: there is no session.
            CollectionError: they cannot be written.
        """
        if session_id is None:
            raise ValueError("a message without a session cannot be kept: run the agent with a session")
        said = [(_remembered(message), message.to_dict()) for message in messages]
        ids = [message.message_id for message in messages]
        await asyncio.to_thread(HostHistory(_HOST, _FORM, self._memory, session_id).add, said, ids)


def _remembered(message: Message) -> Remembered:
    # A call has no text, and is shown as the tool's, as its result is.
    role = role_of(message.role) if message.text else Role.TOOL
    return Remembered(_text(message), id=message.message_id or "", role=role, source=message.author_name or "")


def _text(message: Message) -> str:
    """Return the text of a message, or else the calls of tools and their results in it."""
    return message.text or "\n".join(filter(None, map(_tool_text, message.contents)))


def _tool_text(content: Content) -> str:
    if content.type == "function_call":
        return f"{content.name}({_plain(content.arguments)})"
    return _plain(content.result) if content.type == "function_result" else ""


def _plain(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
